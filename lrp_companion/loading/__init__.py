"""Models from disk or the hub: what they read, what is checked, and the classifier that is explained."""

"""What records say: numbers from finished runs, without torch and without a model."""

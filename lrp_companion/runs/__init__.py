"""Whole data sets by one command: what a job is, how jobs are run and kept, and how a run is read."""

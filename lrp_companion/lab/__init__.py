"""Runs over whole data sets: what a job is, how jobs are run and kept, and how a run is read."""

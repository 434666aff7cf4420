"""Makers of single records in `results/`: each ran once, and `results/README.md` has its call."""

"""Measurements of speed against peers and against the machine's arithmetic; `python -m benchmarks --help`."""

"""Experiments on a model at work, small enough for a notebook: rows of plain numbers."""

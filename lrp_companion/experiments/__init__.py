"""Loops over data that the notebooks show: rows of plain numbers, one per example and method."""

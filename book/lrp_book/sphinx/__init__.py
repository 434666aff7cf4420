"""Sphinx extensions of the book, one for each role or directive, and what stages its assets."""

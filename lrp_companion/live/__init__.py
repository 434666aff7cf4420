"""Live experiments on a model, small enough for a notebook, as rows of plain numbers."""

"""Analysis of records: numbers from finished runs, without torch and without a model."""

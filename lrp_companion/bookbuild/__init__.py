"""The book: its notebooks executed, its pages built, and the Sphinx extensions that the pages need."""

"""The book: what single chapters, the course and the build use. It needs a checkout, and is in no wheel."""

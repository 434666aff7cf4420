"""Models that can be explained: products, linear attention, BERT-family classifiers."""

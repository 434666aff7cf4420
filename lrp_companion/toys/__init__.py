"""Small models with every step in sight: a product, one softmax step, linear attention on digits."""

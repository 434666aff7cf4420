"""Pages that need no kernel and no other host: their assets, and a model that runs in them."""

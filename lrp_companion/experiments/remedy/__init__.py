"""The gradient of the attention mask as a remedy: how near it comes to LOO at what cost, which options, and where it fails."""

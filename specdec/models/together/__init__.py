"""Former places of `models.requests` and `models.batching`."""

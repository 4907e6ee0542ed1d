"""The API of what is done to runs: one, or many at once."""

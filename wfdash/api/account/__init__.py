"""The API of what belongs to the caller."""

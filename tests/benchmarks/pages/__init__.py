"""Pages over many rows."""

"""Forms from JSON Schema, built and read on the server."""

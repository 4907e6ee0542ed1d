"""JSON Schema: checking values, messages that name the field, formats, files, patterns, secrets. Pure."""

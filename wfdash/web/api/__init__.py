"""The HTTP API: the same queries and actions as the pages, as JSON."""

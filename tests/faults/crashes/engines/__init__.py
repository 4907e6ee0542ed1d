"""One workflow per engine, in files that are served: the same four steps, one of which asks."""

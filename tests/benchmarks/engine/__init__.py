"""Steps, commits and checkpoints: the library alone."""

"""Actions on runs: start, cancel, pause, retry, signal, tag, migrate, delete, one or many."""

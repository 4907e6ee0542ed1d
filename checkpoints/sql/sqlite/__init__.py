"""SQLite: the writer thread, its queue and its fair lock, and the tables of a file."""

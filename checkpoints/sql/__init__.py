"""The storage verbs as generators of SQL statements, and what runs them on SQLite and PostgreSQL."""

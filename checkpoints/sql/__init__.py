"""The storage operations as generators of SQL statements, and their executors for SQLite and PostgreSQL."""

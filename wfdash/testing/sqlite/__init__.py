"""The bench's database engine: Django's for SQLite, by the bench's clock."""

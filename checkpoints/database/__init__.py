"""Everything on Django's databases beside the tables: the storage, rows as records, locks, key rotation."""

"""Several processes on one PostgreSQL: how they start, end, and reach it."""

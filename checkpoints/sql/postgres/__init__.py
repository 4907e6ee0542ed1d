"""PostgreSQL: connections, their pool, and transactions that several runs share."""

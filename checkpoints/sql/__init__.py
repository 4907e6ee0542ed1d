"""The storage operations as generators of SQL statements, and their executors for SQLite and PostgreSQL.

A verb of ``writes``, ``claims`` or ``reads`` yields lists of statements and is sent their rows. It knows neither
threads nor drivers. ``statements`` has each statement once, with what differs between the databases in a ``Dialect``;
``tables`` one row builder per table. ``sqlite`` has a writer thread, a fair write lock and the tables of a file without
Django, and runs a script in the thread of a caller without a loop; ``postgres`` a connection pool per event loop, one
more for callers without a loop, and group commit.
"""

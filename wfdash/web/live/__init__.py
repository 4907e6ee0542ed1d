"""Live updates: one hub per process, a feed per watched run, websockets with a cursor and credit."""

"""Live updates: one hub per process, a feed per watched run, websockets with a cursor and credit.

``feeds`` reads and writes the events of a watched run once for all viewers, as rows, records or an event stream;
``streams`` are the event streams of the API, fed by the same feeds, and those of workflows.
"""

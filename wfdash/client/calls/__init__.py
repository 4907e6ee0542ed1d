"""Every call of the API as a script, by noun: ``Calls`` in ``wfdash.client.client`` is their table.

Each is a generator of effects, which one driver performs with blocking sockets and one in asyncio. Both clients and the
command line come from the table; retries, streams and ``ask`` are scripts, too.
"""

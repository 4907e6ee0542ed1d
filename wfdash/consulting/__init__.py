"""Consultations: a server without a workflow's code asks a worker that has it, by a row, and waits for seconds.

Never inside a transaction, which would hold its locks so long. What is asked changes nothing: the server acts on the
reply in a transaction of its own, as one that has the code does. ``ask`` is the server's half, ``reply`` the worker's.
"""

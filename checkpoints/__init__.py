"""The storage layer of wfdash: everything about a run that survives a restart.

The pure half (``ids``, ``errors``, ``records``, ``storage``, ``content``, ``manager``, ``memory``, ``file``) works
without Django; the other half is a Django app that gives the same guarantees in a database. ``Record.trusted`` of
``records`` makes a record of what is known to be right, without a check. ``orm`` is the public name of
``DatabaseStorage``, and ``agent_framework`` the framework's own ``CheckpointStorage`` over any of our storages.
"""

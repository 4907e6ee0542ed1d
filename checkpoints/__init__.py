"""The storage layer of wfdash: everything about a run that survives a restart.

The pure half (``ids``, ``errors``, ``records``, ``storage``, ``content``, ``manager``, ``memory``) works without
Django; the other half is a Django app that gives the same guarantees in a database.
"""

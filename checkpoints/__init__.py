"""The ground of wfdash: everything about a run that survives a restart.

The pure half (``ids``, ``errors``, ``records``, ``storage``, ``chunks``, ``manager``, ``memory``) works
without Django; the other half is a Django app that keeps the same promises in a database.
"""

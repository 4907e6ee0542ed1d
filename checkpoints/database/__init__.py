"""Everything on Django's databases beside the tables: the storage, rows as records, locks, key rotation.

``storage`` has the ports, and ``write``, the transaction of an action, with the write lock and the check of texts for
every ORM write. ``compiled`` keeps SQL that is built once; ``clock`` is the database's time; ``high_water_mark`` the id
below which no event can appear any more; ``runs`` deletes runs with all that refers to them, those with very many rows
in parts. ``alias`` says which of Django's databases it is, ``router`` tells the ORM. ``direct`` connects past a pooler;
``schema`` lets one process at a time migrate; ``installation_key`` holds all processes to one secret key.
"""

"""``manage.py work``: the short name of ``wfdash_worker``, in an installation of its own."""

from __future__ import annotations

from wfdash.management.commands.wfdash_worker import Command as Command

"""The verbs that workers carry out, loaded at once and in one thread.

Servers import their runner before Django has its models, so its modules import verbs where they use them. Were that
the first import, several threads would begin with different ends of one package: Python breaks the deadlock by handing
out modules that are half there, and 3.11 may not break it at all.
"""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "announce",
    "beats",
    "ending",
    "finding",
    "firing",
    "keys",
    "outbox",
    "settling",
    "signals",
    "skew",
    "tallies",
    "timers",
)


def load_verbs() -> None:
    """Import them, before there are threads that would."""
    for name in MODULES:
        import_module(f"wfdash.desk.{name}")

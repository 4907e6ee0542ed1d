"""A Django app that keeps the threads of LangGraph, and the saver that writes them: ``DjangoSaver``.

The app's models and migrations need no LangGraph; the saver does (``pip install 'wfdash[langgraph]'``). ``reads``,
``writes`` and ``verbs`` are scripts for both databases; values are cut into chunks that a thread and its copies share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpoints.langgraph.saver import DjangoSaver as DjangoSaver

__all__ = ["DjangoSaver"]


def __getattr__(name: str) -> Any:
    # Only on demand: Django imports this package to find the app.
    if name == "DjangoSaver":
        from checkpoints.langgraph.saver import DjangoSaver

        return DjangoSaver
    raise AttributeError(name)

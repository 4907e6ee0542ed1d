"""The error tree of the storage layer.

CheckpointsError
├── NotFound          nothing under that id (or not for this run)
├── Conflict          another writer was first
│   └── AlreadyAnswered   a request has another answer already
├── ClaimLost         this worker may not write for the run any more
├── Damaged           stored bytes do not match what was written
├── Incompatible      written by another workflow version, engine or format
├── StorageFailed     the database is away, full, read-only or damaged; the driver's error is its cause
├── Unsupported       this storage cannot do that
├── InvalidConfig     a setting contradicts itself
└── InvalidValue      an id, a name or a value that cannot be stored, or does not fit (also a ``ValueError``)
"""

from __future__ import annotations

from typing import Any


class ErrorWithFacts(Exception):
    """An error whose default message is its class's docstring, as far as it is for people. ``facts``: its
    machine-readable part.
    """

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        said, _, _ = (type(self).__doc__ or "").partition("``facts``")
        super().__init__(message or " ".join(said.split()))
        self.facts = facts


class CheckpointsError(ErrorWithFacts):
    """Something about stored runs went wrong; see the subclass for the remedy."""


class NotFound(CheckpointsError):
    """Nothing is stored under that id for this run: check the id, or whether it was pruned."""


class Conflict(CheckpointsError):
    """Someone else wrote first: load the latest state and decide again."""


class AlreadyAnswered(Conflict):
    """The request was answered before, with another value. ``facts``: run, key, by, at, value of that answer."""


class ClaimLost(CheckpointsError):
    """Another worker took over, or the claim expired: stop driving this run, nothing was written."""


class Unreadable(CheckpointsError):
    """What is stored cannot be read: ``Damaged`` or ``Locked``."""


class Damaged(Unreadable):
    """The stored checkpoint does not match its hash: choose an older good one."""


class Incompatible(CheckpointsError):
    """The checkpoint belongs to another workflow version, engine or format: migrate it or run the old code."""


class StorageFailed(CheckpointsError):
    """The database could not do it: see the message, which is its driver's, and try again once that has ended.

    A write may have been done all the same if its connection broke. ``facts``: place.
    """


DRIVERS = frozenset({"sqlite3", "psycopg", "psycopg_pool", "django"})
"""Packages whose errors mean that a storage failed."""


def raise_if_driver_failed(error: BaseException, place: str) -> None:
    """Raise ``StorageFailed`` from an error of a database's driver, or ``Damaged`` for rows that contradict each other;
    return for any other error.
    """
    kinds = type(error).__mro__
    if any(kind.__module__.partition(".")[0] in DRIVERS for kind in kinds):
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        if any(kind.__name__ == "IntegrityError" for kind in kinds):
            words = "rows contradict each other: fork the run's newest checkpoint, or restore the database"
            raise Damaged(f"{place}: {words} ({said})", place=place) from error
        raise StorageFailed(f"{place}: {said}", place=place) from error


class Unsupported(CheckpointsError):
    """This storage does not offer that capability: use one that does."""


class InvalidConfig(CheckpointsError):
    """The checkpoint configuration contradicts itself: see the message for the field to change."""


class InvalidValue(CheckpointsError, ValueError):
    """An id, a name or a value is too long, cannot be stored, or does not fit: see the message for the field."""


def lost_its_server(error: BaseException) -> bool:
    """Return whether this is psycopg's error of a connection that ended while it waited for a result, or wraps it.

    What libpq says itself has no code of the server's, and psycopg makes a plain ``DatabaseError`` of it.
    """
    return any(
        type(one).__name__ == "DatabaseError" and getattr(one, "sqlstate", "") is None
        for one in (error, error.__cause__)
    )

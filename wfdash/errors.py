"""The dashboard's own errors and the one table that maps every error to an HTTP status."""

from __future__ import annotations

from typing import Any

from django.db import InterfaceError, InternalError, OperationalError

from checkpoints import errors as ground
from wfdash.contract import InvalidInput


class WfdashError(ground.ErrorWithFacts):
    """The command could not be carried out; the message says how to fix it."""


class NotFound(WfdashError):
    """There is nothing under that address, or it is not yours to see."""


class NotAllowed(WfdashError):
    """You may see this but not do that: ask an operator or an admin of the workflow."""


class Invalid(WfdashError):
    """The value does not fit: see the errors at each field. Nothing was changed."""

    def __init__(self, errors: list[dict[str, Any]], message: str | None = None) -> None:
        super().__init__(message, errors=errors)
        self.errors = errors

    @property
    def summary(self) -> str:
        """All its messages in one line, without the fields they belong to."""
        return "; ".join(str(one["msg"]) for one in self.errors)

    @property
    def by_field(self) -> dict[str, str]:
        """The message of each field at the top, the last one where it has several."""
        return {str(one["loc"][0]): str(one["msg"]) for one in self.errors}


class AlreadyAnswered(WfdashError):
    """Someone answered first. ``facts``: by, at, value, verdict."""


class NoLongerOpen(WfdashError):
    """The request was withdrawn, superseded by a restore, or its run has ended."""


class Changed(WfdashError):
    """The request changed since it was shown: check the difference, then decide. ``facts``: before, after, now."""


class WrongState(WfdashError):
    """The run's status does not allow this."""


class KeyReused(WrongState):
    """This idempotency key was used for another command: use a new key for each. Nothing was changed."""


class LinkUsed(WfdashError):
    """This link was used before: it can be used only once."""


class TooManyTries(WfdashError):
    """Too many sign-ins failed: wait, or use a one-time link. ``facts``: retry_after (seconds)."""


class TooOften(WfdashError):
    """One person did this too often recently: wait, then retry. ``facts``: retry_after (seconds)."""


class Busy(WfdashError):
    """The server is at its limit: retry in a moment. ``facts``: retry_after (seconds)."""


STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    NotAllowed: 403,
    Invalid: 422,
    InvalidInput: 422,
    AlreadyAnswered: 409,
    NoLongerOpen: 409,
    Changed: 409,
    WrongState: 409,
    KeyReused: 409,
    LinkUsed: 409,
    TooManyTries: 429,
    TooOften: 429,
    Busy: 503,
    ground.NotFound: 404,
    ground.InvalidValue: 422,
    ground.Conflict: 409,
    ground.ClaimLost: 409,
    ground.Damaged: 409,
    ground.Incompatible: 409,
    ground.Unsupported: 501,
    ground.InvalidConfig: 500,
    # The database is unavailable, full or read-only.
    OperationalError: 503,
    InterfaceError: 503,
    InternalError: 503,
}


def status_for(error: Exception) -> int:
    """Return the HTTP status of an error: the entry of its nearest class, 500 if there is none."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)

"""The dashboard's own errors, and the one table of what each error is to a program: status, code and title."""

from __future__ import annotations

from typing import Any, Self

from django.db import InterfaceError, InternalError, OperationalError

from checkpoints import errors as ground
from checkpoints.records import frozen
from wfdash.contract import InvalidInput


class WfdashError(ground.ErrorWithFacts):
    """The command could not be carried out; the message says how to fix it."""


class NotFound(WfdashError):
    """There is nothing under that address, or it is not yours to see."""


class NotAllowed(WfdashError):
    """You may see this but not do that: ask an operator or an admin of the workflow."""


def wrong(field: str, msg: str) -> dict[str, Any]:
    """Return what is wrong with a field, as ``Invalid`` lists it; without a name, with the whole value."""
    return {"loc": [field] if field else [], "msg": msg}


class Invalid(WfdashError):
    """The value does not fit: see the errors at each field. Nothing was changed."""

    def __init__(self, errors: list[dict[str, Any]], message: str | None = None) -> None:
        super().__init__(message, errors=errors)
        self.errors = errors

    @classmethod
    def at(cls, field: str, msg: str) -> Self:
        """Return the error of one field; without a name, of the whole value."""
        return cls([wrong(field, msg)])

    @property
    def summary(self) -> str:
        """All its messages in one line, without the fields they belong to."""
        return "; ".join(str(one["msg"]) for one in self.errors)

    @property
    def by_field(self) -> dict[str, str]:
        """The message of each field at the top, the last one where it has several."""
        return {str(one["loc"][0]): str(one["msg"]) for one in self.errors}


class SignatureMissing(Invalid):
    """The answer fits, and is still to be signed. ``ask``: what a browser is asked to sign; None: no passkey can."""

    ask: dict[str, Any] | None = None


class AlreadyAnswered(WfdashError):
    """Someone answered first. ``facts``: by, at, value, verdict."""


class NoLongerOpen(WfdashError):
    """The request was withdrawn, superseded by a restore, or its run has ended."""


class Changed(WfdashError):
    """The request changed since it was shown: check the difference, then decide. ``facts``: before, after, now."""


class WrongState(WfdashError):
    """The run's status does not allow this."""


class CodeElsewhere(WfdashError, ground.Incompatible):
    """This needs code that only workers have loaded, and none of them answers: try again. Nothing was changed."""


class AlreadyFollowed(WrongState):
    """Someone has followed up on this run since: read what they wrote, and continue there. ``facts``: run, by, at."""


class KeyReused(WrongState):
    """This idempotency key was used for another command: use a new key for each. Nothing was changed."""


class LinkUsed(WfdashError):
    """This link was used before: it can be used only once."""


class BadToken(WfdashError):
    """This token cannot be used: it is unknown, revoked or expired, or its owner's account is deactivated."""


class TooManyTries(WfdashError):
    """Too many sign-ins failed: wait, or use a one-time link. ``facts``: retry_after (seconds)."""


class TooOften(WfdashError):
    """One person did this too often recently: wait, then retry. ``facts``: retry_after (seconds)."""


class Busy(WfdashError):
    """The server is at its limit: retry in a moment. ``facts``: retry_after (seconds)."""


class SignInFailed(WfdashError):
    """A sign-in at the provider proves nothing: begin it again. ``facts``: cause (for the log)."""


class ProviderUnavailable(WfdashError):
    """The provider where people sign in does not answer: retry in a moment. ``facts``: cause (for the log)."""


class BadSignature(WfdashError):
    """A delivery to an incoming webhook does not prove that it comes from who has the secret."""


class Outdated(WfdashError):
    """It changed since you read it: read it again, then decide. Nothing was changed. ``facts``: etag (the present
    one).
    """


class ConditionMissing(WfdashError):
    """This change needs the header If-Match with the ETag that you read. Nothing was changed."""


@frozen
class ProblemKind:
    """A kind of error as programs see it. ``words``: what to do, for errors that have none of their own."""

    status: int
    code: str
    title: str
    words: str = ""


def _kind(status: int, code: str, title: str, words: str = "") -> ProblemKind:
    return ProblemKind(status=status, code=code, title=title, words=words)


UNAVAILABLE = _kind(503, "unavailable", "Database unavailable", "No partial changes were saved. Try again in a moment.")
INVALID = _kind(422, "invalid", "Invalid input")
NOT_FOUND = _kind(404, "not_found", "Not found", "Not found")

KINDS: dict[type[Exception], ProblemKind] = {
    NotFound: NOT_FOUND,
    NotAllowed: _kind(403, "not_allowed", "Not allowed"),
    Invalid: INVALID,
    InvalidInput: INVALID,
    AlreadyAnswered: _kind(409, "already_answered", "Already answered"),
    NoLongerOpen: _kind(409, "no_longer_open", "No longer open"),
    Changed: _kind(409, "changed", "Changed since it was shown"),
    WrongState: _kind(409, "wrong_state", "Not possible in this state"),
    CodeElsewhere: _kind(503, "code_elsewhere", "Code loaded in workers alone"),
    AlreadyFollowed: _kind(409, "already_followed", "Already followed up"),
    KeyReused: _kind(409, "key_reused", "Idempotency key used for another command"),
    BadSignature: _kind(401, "bad_signature", "Signature refused"),
    SignInFailed: _kind(400, "sign_in_failed", "Sign-in did not work"),
    ProviderUnavailable: _kind(503, "provider_unavailable", "The sign-in provider does not answer"),
    LinkUsed: _kind(409, "link_used", "Link already used"),
    BadToken: _kind(401, "bad_token", "Token cannot be used"),
    Outdated: _kind(412, "outdated", "Changed since it was read"),
    ConditionMissing: _kind(428, "condition_missing", "If-Match is missing"),
    TooManyTries: _kind(429, "too_many_tries", "Too many failed attempts"),
    TooOften: _kind(429, "too_often", "Too many requests"),
    Busy: _kind(503, "busy", "Server busy"),
    ground.NotFound: NOT_FOUND,
    ground.InvalidValue: INVALID,
    ground.Conflict: _kind(409, "conflict", "Conflict"),
    ground.ClaimLost: _kind(409, "claim_lost", "Another worker has the run"),
    ground.Damaged: _kind(409, "damaged", "Stored data is damaged"),
    ground.Incompatible: _kind(409, "incompatible", "Checkpoint of another graph"),
    ground.Unsupported: _kind(501, "unsupported", "Not supported by this storage"),
    # The database is unavailable, full or read-only.
    ground.StorageFailed: UNAVAILABLE,
    OperationalError: UNAVAILABLE,
    InterfaceError: UNAVAILABLE,
    InternalError: UNAVAILABLE,
}
"""What each error is to a program: the one table behind every status of pages and API."""

SERVER_ERROR = _kind(500, "server_error", "Server error", "The error was logged. No partial changes were saved.")
REFUSALS: dict[int, ProblemKind] = {
    400: _kind(400, "bad_request", "Bad request", "Invalid body: send JSON"),
    401: _kind(401, "unauthenticated", "Not signed in", "Not signed in. Send a token or a session cookie"),
    403: _kind(
        403,
        "csrf_failed",
        "CSRF check failed",
        "CSRF token missing or invalid. Send the cookie's token in the X-CSRFToken header",
    ),
    404: NOT_FOUND,
    405: _kind(405, "wrong_method", "Method not allowed", "This address does not accept this method"),
    408: _kind(408, "request_timeout", "Request timed out", "The request timed out. Try again"),
    413: _kind(413, "too_large", "Request too large", "The request is too large"),
    415: _kind(415, "wrong_media_type", "Unsupported media type", "Send JSON with Content-Type: application/json"),
    422: INVALID,
    500: SERVER_ERROR,
    503: UNAVAILABLE,
}
"""What is refused before a command is reached, by status."""


def kind_of(error: Exception) -> ProblemKind:
    """Return the entry of the error's nearest class, that of a server error if there is none."""
    return next((KINDS[one] for one in type(error).__mro__ if one in KINDS), SERVER_ERROR)


def status_for(error: Exception) -> int:
    """Return the HTTP status of an error: the entry of its nearest class, 500 if there is none."""
    return kind_of(error).status

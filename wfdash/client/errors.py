"""What can go wrong when a program talks to wfdash: one class per code of a problem, in a tree. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wfdash.client.script import Response

STANDARD = frozenset({"type", "title", "status", "detail", "code", "errors", "instance"})


class ClientError(Exception):
    """Anything that the client raises."""


class Unreachable(ClientError):
    """The server could not be reached, or did not answer in time, also after trying again."""

    def __init__(self, why: str) -> None:
        super().__init__(f"wfdash cannot be reached: {why}")


class TimedOut(ClientError):
    """What was waited for has not happened in the given time. Nothing was changed: wait again."""


class NotAnswered(ClientError):
    """A question ended without an answer: its deadline passed, or its run was cancelled or failed. ``run``: its id."""

    def __init__(self, text: str, *, run: str, status: str) -> None:
        super().__init__(text)
        self.run, self.status = run, status


class BadSignature(ClientError):
    """A delivery is not signed with the secret, or not now: it must not be believed."""


class ApiError(ClientError):
    """The server refused. ``code`` is stable; ``errors`` name fields; ``facts`` is what else the problem says."""

    def __init__(
        self,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        title: str = "",
        errors: list[dict[str, Any]] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail, self.status, self.code, self.title = detail, status, code, title
        self.errors, self.facts = errors or [], dict(facts or {})

    @property
    def by_field(self) -> dict[str, str]:
        """The message for each value that was refused, by its path."""
        return {".".join(map(str, one["loc"])): str(one["msg"]) for one in self.errors}

    def __str__(self) -> str:
        fields = [f"{where}: {text}" if where else text for where, text in self.by_field.items()]
        return "; ".join(fields) or self.detail


class Unauthorized(ApiError):
    """Neither a token nor a session."""


class BadToken(Unauthorized):
    """The token is unknown, expired or revoked."""


class NotAllowed(ApiError):
    """You may see this but not do that, or your token's scopes do not include it."""


class NotFound(ApiError):
    """There is nothing under that address, or you do not have access."""


class Invalid(ApiError):
    """A value is invalid: see ``by_field``. Nothing was changed."""


class Conflict(ApiError):
    """The state of what you wanted to change does not allow it. Nothing was changed."""


class AlreadyAnswered(Conflict):
    """Someone answered first. ``facts``: by, at, value, verdict."""


class NoLongerOpen(Conflict):
    """The request was withdrawn, superseded by a restore, or its run has ended."""


class Changed(Conflict):
    """It changed since it was read. ``facts``: what it is now."""


class WrongState(Conflict):
    """The run's status does not allow this."""


class AlreadyFollowed(WrongState):
    """Someone followed up on this run first. ``facts``: run, by, at."""


class KeyReused(WrongState):
    """This idempotency key was used for another command."""


class ClaimLost(Conflict):
    """A worker has taken the run over."""


class Damaged(Conflict):
    """What is stored cannot be read."""


class Incompatible(Conflict):
    """The checkpoint belongs to another graph of the workflow."""


class LinkUsed(Conflict):
    """A one-time link was used before."""


class Outdated(Conflict):
    """It was edited since it was read. ``facts``: etag, the current one."""


class ConditionMissing(ApiError):
    """The change needs the ETag of what it is based on."""


class TooOften(ApiError):
    """Too many calls. ``facts``: retry_after, in seconds."""


class TooManyTries(TooOften):
    """Too many failed attempts to sign in."""


class BadRequest(ApiError):
    """The request was not understood: another version of wfdash, or something between here and there."""


class Unsupported(ApiError):
    """This installation's storage cannot do that."""


class ServerError(ApiError):
    """The server failed. It has logged why."""


class Busy(ServerError):
    """The server is at its limit, or is restarting."""


class CodeElsewhere(ServerError):
    """The server has not loaded the workflow's code, and no worker that has it answered. Nothing was changed."""


class Unavailable(Busy):
    """The server's database cannot be used."""


BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: Outdated,
    422: Invalid,
    429: TooOften,
    503: Busy,
}
"""The class for a code that this version of the client does not know."""
BY_CODE: dict[str, type[ApiError]] = {
    "already_answered": AlreadyAnswered,
    "already_followed": AlreadyFollowed,
    "bad_request": BadRequest,
    "bad_signature": Unauthorized,
    "bad_token": BadToken,
    "busy": Busy,
    "changed": Changed,
    "claim_lost": ClaimLost,
    "code_elsewhere": CodeElsewhere,
    "condition_missing": ConditionMissing,
    "conflict": Conflict,
    "csrf_failed": NotAllowed,
    "damaged": Damaged,
    "incompatible": Incompatible,
    "invalid": Invalid,
    "key_reused": KeyReused,
    "link_used": LinkUsed,
    "no_longer_open": NoLongerOpen,
    "not_allowed": NotAllowed,
    "not_found": NotFound,
    "outdated": Outdated,
    "request_timeout": BadRequest,
    "provider_unavailable": Busy,
    "server_error": ServerError,
    "sign_in_failed": BadRequest,
    "too_large": BadRequest,
    "too_many_tries": TooManyTries,
    "too_often": TooOften,
    "unauthenticated": Unauthorized,
    "unavailable": Unavailable,
    "unsupported": Unsupported,
    "wrong_media_type": BadRequest,
    "wrong_method": BadRequest,
    "wrong_state": WrongState,
}
"""The class for each code of a problem."""


def error_of(reply: Response) -> ApiError:
    """Return the error that a refusal is."""
    problem = _problem(reply)
    stranger = "" if problem else ", from something that is no wfdash: is the address right?"
    code, status = str(problem.get("code") or ""), reply.status
    kind = BY_CODE.get(code) or BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
    return kind(
        str(problem.get("detail") or problem.get("title") or f"HTTP status {status}{stranger}"),
        status=status,
        code=code,
        title=str(problem.get("title") or ""),
        errors=list(problem.get("errors") or []),
        facts={name: value for name, value in problem.items() if name not in STANDARD},
    )


def refusal(problem: Mapping[str, Any]) -> ApiError | None:
    """Return the error with which a stream ends; None for one after which it is opened again."""
    status = int(problem.get("status") or 500)
    if status >= 500:
        return None
    return error_of(Response(status=status, headers={}, body=json.dumps(problem).encode()))


def _problem(reply: Response) -> dict[str, Any]:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

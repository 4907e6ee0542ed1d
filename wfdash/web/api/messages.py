"""The messages of event streams and sockets as JSON Schema: the OpenAPI document has no place for them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from checkpoints.events import STORED
from wfdash.records import messages as sent
from wfdash.records.runs import EventRecord, WorkflowEvent
from wfdash.web.live import sockets

router = Router()

EVENT = "*"
"""Every message whose name is an event's kind."""
STREAMS: dict[str, dict[str, type[BaseModel]]] = {
    "/api/v1/runs/{run_id}/events": {
        EVENT: EventRecord,
        "stream": sent.StreamText,
        "snapshot": sent.Snapshot,
        "end": sent.StreamEnd,
        "problem": sent.StreamProblem,
    },
    "/api/v1/workflows/{name}/events": {EVENT: WorkflowEvent, "problem": sent.StreamProblem},
}
"""Address -> name of a message -> its data."""
SOCKETS: dict[str, dict[str, type[BaseModel]]] = {
    "/live/runs/{run_id}/?format=json": {
        "events": sent.SocketEvents,
        "caught_up": sent.SocketCaughtUp,
        "stream": sent.SocketText,
        "snapshot": sent.SocketSnapshot,
        "end": sent.SocketEnd,
    },
    "/live/lists/?format=json": {"changed": sent.SocketChanged},
}
"""Address -> type of a message -> the message."""
CLOSES = {
    sockets.DONE: "The run has ended",
    sockets.BAD_FRAME: "An invalid message or parameter",
    sockets.SIGNED_OUT: "No credentials, or bad, expired or revoked ones",
    sockets.RIGHT_LOST: "No longer allowed",
    sockets.NO_SUCH_RUN: "No such run, or no access",
    sockets.NO_ACK: "Nothing acknowledged for too long",
    sockets.FRAME_TOO_LARGE: "A message that is too large",
    sockets.TOO_MANY: "Too many connections, or messages in a second",
    sockets.BROKEN: "The server failed: connect again",
}
"""Why a socket closes, by its code."""


@router.get("/messages.json", auth=None, include_in_schema=False)
def get_messages(request: HttpRequest) -> JsonResponse:
    """Return the schemas."""
    return JsonResponse(messages_document())


@lru_cache(maxsize=1)
def messages_document() -> dict[str, Any]:
    """Return JSON Schemas of all messages (``$defs``), and which of them an address sends."""
    models = [one for messages in (*STREAMS.values(), *SOCKETS.values()) for one in messages.values()]
    models.append(sent.Acknowledgement)
    _, found = models_json_schema(
        [(one, "validation") for one in dict.fromkeys(models)], ref_template="#/$defs/{model}", title="Messages"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:wfdash:messages:{sent.VERSION}",
        **found,
        "description": "What event streams and sockets send. Later versions may add messages and fields.",
        "version": sent.VERSION,
        "streams": {address: _references(messages) for address, messages in STREAMS.items()},
        "sockets": {address: _references(messages) for address, messages in SOCKETS.items()},
        "takes": _reference(sent.Acknowledgement),
        "closes": {str(code): words for code, words in CLOSES.items()},
        "kinds": {name: sorted(kind.fields) for name, kind in STORED.items()},
    }


def _references(messages: dict[str, type[BaseModel]]) -> dict[str, Any]:
    return {name: _reference(one) for name, one in messages.items()}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{model.__name__}"}

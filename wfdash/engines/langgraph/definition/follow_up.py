"""Messages that begin a run or continue a conversation, as what a graph is called with."""

from __future__ import annotations

import inspect
from typing import Any

from checkpoints.records import Checkpoint, Json
from wfdash.contract import InvalidInput, Resume, RunInput
from wfdash.engines.langgraph.definition.graphs import Ready, function_of
from wfdash.engines.langgraph.definition.schemas import Schema, input_of
from wfdash.engines.langgraph.stored.thread import Thread
from wfdash.values.schemas.validate import problems_of

READING_PREVIOUS = frozenset({"previous", "runtime", "get_runtime"})
"""Names by which a function gets what its last run kept: the first two are parameters that LangGraph fills."""


def follow_up_schema(ready: Ready) -> Schema | None:
    """Return the schema of a message that continues a finished run; None for a graph that keeps no conversation.

    A chat takes its input again, with the next message. So does a function that may read what its last run kept. The
    context of the run before stays where no other is given.
    """
    wanted = input_of(ready)
    if not wanted.chats and not ((wanted.whole is not None or wanted.sole) and _reads_previous(ready)):
        return None
    if wanted.whole is not None:
        return wanted.schema()
    required = dict.fromkeys([*wanted.required, *wanted.chats[:1]])
    return {**wanted.schema(), "required": [name for name in required if name != wanted.context]}


def _reads_previous(ready: Ready) -> bool:
    """Return whether an entrypoint may read what its last run kept: by ``previous``, or from LangGraph's ``runtime``.

    True where its code is not known.
    """
    functions = [function_of(node) for node in ready.steps.values()]
    if "__previous__" not in ready.graph.channels or len(functions) != 1:
        return False
    if functions[0] is None:
        return True
    used = {*inspect.signature(functions[0]).parameters, *getattr(functions[0].__code__, "co_names", ())}
    return not used.isdisjoint(READING_PREVIOUS)


def check_follow_up(ready: Ready, checkpoint: Checkpoint, message: Json) -> Json:
    """Return the message as the run that follows gets it. ``InvalidInput``; ``Damaged`` for another engine's body."""
    Thread.of(checkpoint.body)
    schema = follow_up_schema(ready)
    if schema is None:
        raise InvalidInput([{"loc": [], "msg": "runs of this workflow take no further message: start a new one"}])
    if problems := problems_of(schema, message):
        raise InvalidInput(problems)
    input_of(ready).read(message)
    return message


def message_of(ready: Ready, given: RunInput) -> Any:
    """Return what the graph is called with: the input of a new run, or the next message; None for any other."""
    return None if isinstance(given, Resume) else input_of(ready).read(given.message)

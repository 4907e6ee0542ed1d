"""A checkpoint of Agent Framework as the body of one of ours and back, in the framework's own encoding.

What is JSON stays JSON, the rest is a pickle: it is decoded only where the framework would, and only what it allows.
The framework's own reader is not used: what it allows makes classes and imports modules as a pickle says.
"""

from __future__ import annotations

import base64
import math
import pickle
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from checkpoints.content import pickles
from checkpoints.limits import is_holdable
from checkpoints.records import Json

PICKLED, TYPE = "__pickled__", "__type__"
"""The framework's keys of what is pickled."""
NATIVE = (str, int, float, bool, type(None))
OURS = ("agent_framework.", "agent_framework_orchestrations.", "openai.types.")
"""Packages whose classes the framework allows."""


def encode(checkpoint: WorkflowCheckpoint, allowed: frozenset[str]) -> dict[str, Json]:
    """Return the body. ``WorkflowCheckpointException`` for what cannot be encoded, or not be decoded again."""
    try:
        fields = encoded(checkpoint.to_dict())
        _decoded(fields, partial(pickles.verify, find=_finder(allowed)))
        # Two levels: a value that has not changed is not stored again.
        return {"state": fields.pop("state"), "position": fields}
    except Exception as error:
        text = f"Checkpoint {checkpoint.checkpoint_id} cannot be stored: {type(error).__name__}: {error}"
        raise WorkflowCheckpointException(text) from error


def decode(body: dict[str, Json], allowed: frozenset[str]) -> WorkflowCheckpoint:
    """Return the checkpoint. ``WorkflowCheckpointException`` for a type that is not allowed, or if it is no body."""
    try:
        fields = {**body["position"], "state": body["state"]}
    except (KeyError, TypeError) as error:
        raise WorkflowCheckpointException("This is no checkpoint of Agent Framework") from error
    try:
        found = _decoded(fields, partial(pickles.read, find=_finder(allowed), trusted=False))
    except Exception as error:
        raise WorkflowCheckpointException(f"Failed to decode pickled checkpoint data: {error}") from error
    return WorkflowCheckpoint.from_dict(found)


def _decoded(value: Json, read: Callable[[bytes], Any]) -> Any:
    if isinstance(value, dict) and PICKLED in value and TYPE in value:
        return read(base64.b64decode(value[PICKLED], validate=True))
    if isinstance(value, dict):
        return {name: _decoded(one, read) for name, one in value.items()}
    return [_decoded(one, read) for one in value] if isinstance(value, list) else value


def _finder(allowed: frozenset[str]) -> pickles.Find:
    """Return what finds the classes that the framework allows: its own, those of OpenAI's library, registered ones."""
    known = allowed | registered_types()

    def find(module: str, name: str) -> type:
        if f"{module}:{name}" in allowed:
            # The application has named it: that may import it.
            import_module(module)
        found = pickles.loaded_class(module, name)
        inside = [one.startswith(OURS) for one in (f"{module}.", f"{getattr(found, '__module__', '')}.")]
        if found and (f"{module}:{name}" in known or all(inside)):
            return found
        raise pickle.UnpicklingError(
            f"{module}:{name} is no class that may be decoded: name it in allowed_checkpoint_types, or decorate it "
            "with agent_framework.register_checkpoint_type; a class of the framework must be imported before"
        )

    return find


def registered_types() -> frozenset[str]:
    """Return the classes that authors have registered with ``register_checkpoint_type``.

    The framework keeps them under a private name; where that is gone, none is known.
    """
    try:
        from agent_framework._workflows import _checkpoint_encoding as theirs
    except ImportError:
        return frozenset()
    return frozenset(getattr(theirs, "_REGISTERED_CHECKPOINT_TYPE_KEYS", ()))


def encoded(value: Any) -> Json:
    """Return a value as the framework's own storages write it: JSON as it is, anything else as a pickle.

    Pickled as well is what they lose: dicts with keys that are no texts, and what strict JSON lacks (NaN, infinity,
    half characters).
    """
    if isinstance(value, NATIVE):
        lacking = not is_holdable(value) if isinstance(value, str) else value != value or value in (math.inf, -math.inf)
        return _pickled(value) if lacking else value
    if type(value) is list:
        return [encoded(one) for one in value]
    plain = type(value) is dict and all(isinstance(name, str) and is_holdable(name) for name in value)
    if plain and PICKLED not in value and TYPE not in value:
        # Of an enumeration's member as a key its text is kept, which equals it.
        return {str.__str__(name): encoded(one) for name, one in value.items()}
    return _pickled(value)


def _pickled(value: Any) -> dict[str, str]:
    data = base64.b64encode(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).decode("ascii")
    return {PICKLED: data, TYPE: f"{type(value).__module__}:{type(value).__qualname__}"}

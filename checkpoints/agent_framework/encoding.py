"""A checkpoint of Agent Framework as the body of one of ours and back, in the framework's own encoding.

What is JSON stays JSON, the rest is a pickle: it is decoded only where the framework would, and only what it allows.
"""

from __future__ import annotations

import base64
import math
import pickle
from typing import Any

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

# Not public, and the one thing that the framework has for it: its own file storage uses the same two.
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value

from checkpoints.limits import is_holdable
from checkpoints.records import Json


def encode(checkpoint: WorkflowCheckpoint, allowed: frozenset[str]) -> dict[str, Json]:
    """Return the body. ``WorkflowCheckpointException`` for what cannot be encoded, or not be decoded again."""
    try:
        fields = encode_checkpoint_value(checkpoint.to_dict())
        decode_checkpoint_value(fields, allowed_types=allowed)
        state = as_json(fields.pop("state"))
        # Two levels: a value that has not changed is not stored again.
        return {"state": state, "position": as_json(fields)}
    except WorkflowCheckpointException:
        raise
    except Exception as error:
        text = f"Checkpoint {checkpoint.checkpoint_id} cannot be stored: {type(error).__name__}: {error}"
        raise WorkflowCheckpointException(text) from error


def decode(body: dict[str, Json], allowed: frozenset[str]) -> WorkflowCheckpoint:
    """Return the checkpoint. ``WorkflowCheckpointException`` for a type that is not allowed, or if it is no body."""
    try:
        fields = {**body["position"], "state": body["state"]}
    except (KeyError, TypeError) as error:
        raise WorkflowCheckpointException("This is no checkpoint of Agent Framework") from error
    return WorkflowCheckpoint.from_dict(decode_checkpoint_value(fields, allowed_types=allowed))


def as_json(value: Json) -> Json:
    """Return an encoded value with what strict JSON lacks as the framework's pickle: NaN, infinity, half characters."""
    if isinstance(value, dict):
        return {name: as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _pickled(value)
    if isinstance(value, str) and not is_holdable(value):
        return _pickled(value)
    return value


def _pickled(value: Any) -> dict[str, str]:
    data = base64.b64encode(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).decode("ascii")
    return {"__pickled__": data, "__type__": f"builtins:{type(value).__qualname__}"}

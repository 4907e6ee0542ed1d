"""Where a checkpoint of Agent Framework lies in a storage: its run and its id there, by scope, name and id. Pure.

Two scopes never share a run or an id, whatever their names: what is joined is quoted first.
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote, unquote

from checkpoints.ids import CheckpointId, RunId, WorkflowId
from checkpoints.limits import ID, NAME, cleaned, is_storable

HASHED = "%:"
"""Begins what is too long, or holds what cannot be stored: quoted text never begins so."""
READABLE = " !#$&'()*+,/:;=?@[]|"
"""Characters that stay as they are in ``plain``, beside letters, digits and ``-._~``."""


def run_of_workflow(scope: str, workflow: str) -> RunId:
    """Return the run that has the checkpoints of a workflow in a scope."""
    return RunId(_stored(f"{_quoted(scope)}:{_quoted(workflow)}"))


def stored_id(scope: str, checkpoint: str) -> CheckpointId:
    """Return the id that a checkpoint has in the storage."""
    return CheckpointId(_stored(f"{_quoted(scope)}:{checkpoint}"))


def workflow_id(name: str) -> WorkflowId:
    """Return a workflow's name as lists show it: itself, if it can be stored."""
    if name.strip() and len(name) <= NAME and is_storable(name):
        return WorkflowId(name)
    return WorkflowId(f"{cleaned(name)[:100]}-{_hash(name)[:16]}")


def plain(text: str) -> str:
    """Return text in a form that every document can hold; an id of the framework's own stays the same."""
    return quote(text, safe=READABLE, errors="surrogatepass")


def from_plain(text: object) -> str:
    """Return what ``plain`` was given."""
    return unquote(str(text), errors="surrogatepass")


def _stored(text: str) -> str:
    return text if len(text) <= ID and is_storable(text) else HASHED + _hash(text)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

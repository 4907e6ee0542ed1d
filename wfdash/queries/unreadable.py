"""What is shown in the place of content that cannot be decrypted, or that is secret.

One such row breaks no list. Secrets, the secret fields of a workflow, are masked in everything that is read, whatever
the viewer's rights.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.db.models import Case, Model, When
from django.db.models.lookups import LessThan

from checkpoints.content.encryption import Locked, NotEncrypted
from checkpoints.errors import CheckpointsError, Unreadable
from checkpoints.events import VALUES
from checkpoints.models import HumanRequest, Run
from checkpoints.models.fields import StoredSize, current_encryptor
from checkpoints.records import Json, JsonObject, Phase
from checkpoints.rules import NEVER, USED
from checkpoints.rules import UNREADABLE as FLAW
from wfdash.domain.labels import visible
from wfdash.engines import catalog
from wfdash.engines.catalog import secrets_of
from wfdash.records.base import UNREADABLE
from wfdash.values.schemas.secrets import masked

LARGEST_LISTED = 100_000
"""Bytes of an encrypted card that is decrypted for a row of a list."""


def why(error: CheckpointsError) -> str:
    """Return the reason why content cannot be decrypted, as text."""
    if isinstance(error, NotEncrypted):
        return "Not encrypted with your keys"
    if isinstance(error, Locked):
        return "Encrypted with a key this server does not have"
    return "Altered after it was written"


def document(row: Model, column: str) -> Any:
    """Return a column's document; ``{"unreadable": words}`` for an unreadable one."""
    try:
        return getattr(row, column)
    except Unreadable as error:
        return {UNREADABLE: why(error)}


def text(row: Model, column: str) -> str:
    """Return a column's text, or why it is unreadable."""
    try:
        return str(getattr(row, column))
    except Unreadable as error:
        return why(error)


def is_readable(row: HumanRequest) -> bool:
    """Return whether everything of a request that it is answered by can be read."""
    found = [document(row, column) for column in ("card", "answer_schema", "policy")]
    return isinstance(row.risk, int) and all(isinstance(one, dict) and UNREADABLE not in one for one in found)


def flaw_of(run: Any) -> str:
    """Return why a run is shown as failed whose metadata cannot be read, and replace what cannot; empty for others."""
    counts = {run.n, run.seq, *(getattr(run, name) or 0 for name in USED)}
    if run.phase in set(Phase) and NEVER not in {run.created, run.updated} and set(map(type, counts)) == {int}:
        return ""
    vars(run).update(phase=Phase.FAILED, n=0, seq=0, **dict.fromkeys(USED))
    return FLAW.capitalize()


def data_of(row: Any) -> JsonObject:
    """Return an event's data; ``{"unreadable": words}`` for unreadable data."""
    data = document(row, "data")
    return data if isinstance(data, dict) else {}


def subject_of(row: HumanRequest) -> str:
    """Return a request's subject, for lists."""
    return headline(document(row, "card"), row.step)


def hidden_cards() -> dict[str, Case]:
    """Return what lists of requests read besides, where the database cannot read headlines: ``hidden_card``.

    None for a card above ``LARGEST_LISTED``, whose step is its headline then: a page of those would cost seconds.
    """
    small = LessThan(StoredSize("card"), LARGEST_LISTED)
    return {"hidden_card": Case(When(small, then="card"))} if current_encryptor().active else {}


def subject_in(card: Any, request_id: str, step: str) -> str:
    """Return a request's subject, from a card that was read without its row."""
    return subject_of(HumanRequest(id=request_id, card=card, step=step))


def headline(card: Any, step: str) -> str:
    """Return the headline of a card, or of an unreadable one."""
    fields = card if isinstance(card, dict) else {}
    return visible(str(fields.get("subject") or fields.get(UNREADABLE) or step))


def masked_for(workflow: str, value: Json) -> Json:
    """Return a value of a run with its workflow's secrets masked."""
    return masked(value, secrets_of(workflow))


def masked_data(run_id: str, data: JsonObject) -> JsonObject:
    """Return an event's data with secrets masked (one query per run and process, if anything in it may be one)."""
    values = {name: data[name] for name in VALUES & data.keys()}
    known = catalog.all_secrets() if values else frozenset[str]()
    if not known or masked(values, known) == values:
        return data
    hidden: JsonObject = masked(values, secrets_of(_workflow_of(run_id)))
    return data | hidden


@lru_cache(maxsize=1000)
def _workflow_of(run_id: str) -> str:
    return Run.objects.values_list("workflow", flat=True).get(pk=run_id)

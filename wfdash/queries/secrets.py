"""Masks secrets in everything that is read, whatever the viewer's rights: the secret fields of a workflow."""

from __future__ import annotations

from functools import lru_cache

from checkpoints.events import VALUES
from checkpoints.models import Run
from checkpoints.records import Json
from wfdash.engines import catalog
from wfdash.engines.catalog import secrets_of
from wfdash.values.schemas.secrets import masked


def masked_for(workflow: str, value: Json) -> Json:
    """Return a value of a run with its workflow's secrets masked."""
    return masked(value, secrets_of(workflow))


def masked_data(run_id: str, data: dict[str, Json]) -> dict[str, Json]:
    """Return an event's data with secrets masked (one query per run and process, if anything in it may be one)."""
    values = {name: data[name] for name in VALUES & data.keys()}
    known = catalog.all_secrets() if values else frozenset[str]()
    if not known or masked(values, known) == values:
        return data
    hidden: dict[str, Json] = masked(values, secrets_of(_workflow_of(run_id)))
    return data | hidden


@lru_cache(maxsize=1000)
def _workflow_of(run_id: str) -> str:
    return Run.objects.values_list("workflow", flat=True).get(pk=run_id)

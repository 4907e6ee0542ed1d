"""What nobody is shown, whatever their rights: the fields that a workflow calls secrets, in all that is read of it."""

from __future__ import annotations

from functools import lru_cache

from checkpoints.models import Run
from checkpoints.records import Json
from wfdash import catalog
from wfdash.hidden import masked

CONTENT = frozenset({"output", "value", "data"})
"""Where events keep values of the workflow."""


def secrets_of(workflow: str) -> frozenset[str]:
    """Return the names of a workflow's secret fields, as far as it is loaded."""
    entry = catalog.find(workflow)
    return entry.secrets if entry else frozenset()


def masked_for(workflow: str, value: Json) -> Json:
    """Return a value of a run with what its workflow calls a secret hidden."""
    return masked(value, secrets_of(workflow))


def masked_data(run_id: str, data: dict[str, Json]) -> dict[str, Json]:
    """Return an event's data with secrets hidden (one query per run and process, if anything in it may be one)."""
    told = {name: data[name] for name in CONTENT & data.keys()}
    known = frozenset[str]().union(*(entry.secrets for entry in catalog.entries())) if told else frozenset[str]()
    if not known or masked(told, known) == told:
        return data
    hidden: dict[str, Json] = masked(told, secrets_of(_workflow_of(run_id)))
    return data | hidden


@lru_cache(maxsize=1000)
def _workflow_of(run_id: str) -> str:
    return Run.objects.values_list("workflow", flat=True).get(pk=run_id)

"""The commands that start a run from a program, with the input that the page shows."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest
from django.urls import reverse

from checkpoints.records import Json
from wfdash.catalog import secrets_of
from wfdash.pages.ui.commands import Commands, commands
from wfdash.queries.runs.listing import RunView
from wfdash.queries.workflows import WorkflowRow
from wfdash.schemas.sample import sample
from wfdash.schemas.secrets import masked


def start_commands(request: HttpRequest, row: WorkflowRow, initial: Json) -> Commands:
    """Return the commands of a start form. ``initial``: what fills it; else the first example, or a made-up input."""
    made = sample(row.description.input_schema)
    examples = row.description.examples
    given = initial if initial is not None else examples[0] if examples else made
    safe = masked(given, secrets_of(row.name))
    return _commands(request, "Start from a program", row.name, _completed(safe, made))


def again_commands(request: HttpRequest, run: RunView) -> Commands:
    """Return the commands that start another run with a run's input, for people who may inspect it."""
    return _commands(request, "Run again from a program", run.workflow, run.input)


def _commands(request: HttpRequest, title: str, workflow: str, message: Json) -> Commands:
    body = {"workflow": workflow, "message": message}
    return commands(request, "start-commands", title, reverse("wfdash:api:start_run"), body)


def _completed(given: Json, made: Json) -> Json:
    """Return an input with what it lacks of the required fields: secrets are never copied."""
    if isinstance(given, Mapping) and isinstance(made, Mapping):
        missing = {name: part for name, part in made.items() if name not in given}
        return {name: _completed(part, made.get(name)) for name, part in given.items()} | missing
    return given

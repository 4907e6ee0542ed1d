"""What the catalogue can be filtered by: one row for each key, with its condition and what is suggested for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.catalog import Entry
from wfdash.queries.search.qualifiers import ListFilter, Qualifier, Suggestion
from wfdash.queries.workflows.catalogue import WorkflowRow

Holds = Callable[[WorkflowRow, str], bool]
"""Returns whether a value of a term holds for a workflow."""
SHOWS: dict[str, Callable[[WorkflowRow], bool]] = {
    "open": lambda row: row.active > 0,
    "waiting": lambda row: row.waiting_requests > 0,
    "failed": lambda row: row.failed > 0,
    "scheduled": lambda row: row.next_run is not None,
}


def _names(entries: list[Entry]) -> Iterable[Suggestion]:
    return [Suggestion(entry.name, entry.description.title or "") for entry in entries]


def _steps(entries: list[Entry]) -> Iterable[str]:
    return sorted({step.name for entry in entries for step in entry.description.steps})


def _same(name: str, value: str) -> bool:
    return name.startswith(value[:-1]) if value.endswith("*") else name == value


QUALIFIERS: tuple[Qualifier[Holds, list[Entry]], ...] = (
    Qualifier(
        key="show",
        example="show:failed",
        meaning="has open or failed runs, waiting requests, or a schedule: open, waiting, failed, scheduled",
        only=tuple(SHOWS),
        condition=lambda row, value: SHOWS[value.lower()](row),
    ),
    Qualifier(
        key="workflow",
        example="workflow:refund",
        meaning="this workflow; ref* for prefix",
        single=True,
        suggest=_names,
        condition=lambda row, value: _same(row.name, value),
    ),
    Qualifier(
        key="step",
        example="step:review",
        meaning="has this step; rev* for prefix",
        suggest=_steps,
        condition=lambda row, value: any(_same(step.name, value) for step in row.description.steps),
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in title, name, description or steps")


def matching(rows: Iterable[WorkflowRow], text: str) -> list[WorkflowRow]:
    """Return the rows a filter finds; ``Invalid`` names each part that cannot be understood, and its remedy."""
    wanted = FILTER.parse(text)
    words = [(word.lower(), True) for word in wanted.words] + [(word.lower(), False) for word in wanted.unwanted]

    def holds(row: WorkflowRow) -> bool:
        said = _text_of(row)
        terms = (
            any(FILTER[term.key].condition(row, value) for value in term.values) != term.negated
            for term in wanted.terms
        )
        return all(terms) and all((word in said) == occurs for word, occurs in words)

    return [row for row in rows if holds(row)]


def workflow_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the catalogue suggests (no query)."""
    return FILTER.suggestions([entry for entry in catalog.entries() if viewer.may("see", entry.name)])


def _text_of(row: WorkflowRow) -> str:
    steps = (f"{step.name} {step.title}" for step in row.description.steps)
    return " ".join([row.name, row.title, row.description.doc, *steps]).lower()

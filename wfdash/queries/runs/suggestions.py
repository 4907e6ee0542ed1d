"""What the filter of the list of runs suggests: keys, and for each the values that occur."""

from __future__ import annotations

from typing import Any

from checkpoints.models import Preference
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.domain import search_attributes
from wfdash.queries.runs.expressions import texts_beginning
from wfdash.queries.runs.filters import EXAMPLES, MEANINGS, STATES, STATUSES

MOST = 100
MOST_PATHS = 60


def run_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return ``{"keys": [{key, example, meaning}], "values": {key: [{value, label}]}}`` (two queries)."""
    keys = [{"key": key, "example": EXAMPLES[key], "meaning": MEANINGS[key]} for key in EXAMPLES if key != "input"]
    paths = list(dict.fromkeys(_paths(viewer)))[:MOST_PATHS]
    keys += [{"key": path, "example": f"{path}:…", "meaning": title} for path, title in paths]
    fixed: dict[str, tuple[str, ...]] = {
        "status": STATUSES,
        "is": STATES,
        "started": ("<1h", "<1d", "<7d", ">7d", "today"),
        "finished": ("<1h", "<1d", "today"),
        "by": ("me", "none"),
        "tag": texts_beginning(search_attributes.TAG, "", MOST) or (),
        "error": texts_beginning(search_attributes.ERROR, "", MOST) or (),
    }
    values = {key: [_said(value) for value in found] for key, found in fixed.items()}
    named = catalog.titles()
    values["workflow"] = [_said(name, named[name]) for name in sorted(named) if viewer.may("see", name)]
    return {"keys": keys, "values": values}


def columns_of(viewer: Viewer, page: str) -> tuple[str, ...] | None:
    """Return the columns this person chose for a list (one query), None if they never did."""
    looks = Preference.objects.filter(user_id=viewer.user.pk).values_list("looks", flat=True).first() or {}
    chosen = (looks.get(page) or {}).get("columns")
    return tuple(map(str, chosen)) if isinstance(chosen, list) else None


def _paths(viewer: Viewer) -> list[tuple[str, str]]:
    """Return the fields of inputs that this person may look for, each with its workflow's title."""
    return [
        (search_attributes.path_name(path), f"input of {entry.description.title or entry.name}")
        for entry in catalog.entries()
        if viewer.may("inspect", entry.name)
        for path in search_attributes.paths_of(entry.description.input_schema)
    ]


def _said(value: str, label: str = "") -> dict[str, str]:
    quoted = f'"{value}"' if " " in value or "," in value else value
    return {"value": quoted, "label": label if label != value else ""}

"""What the filter of the inbox suggests: keys, and for each the values that occur."""

from __future__ import annotations

from typing import Any

from checkpoints.models import HumanRequest
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.queries.requests.filters import EXAMPLES, MEANINGS, RISKS, STATES
from wfdash.queries.requests.inbox import tab_filter

MOST = 2000
"""Open requests that are looked at, newest first."""

FIXED = {
    "risk": RISKS[::-1],
    "is": STATES,
    "due": ("<4h", "<1d", "overdue", "today", "none"),
    "age": (">1d", ">7d", "<1h"),
}


def suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return ``{"keys": [{key, example, meaning}], "values": {key: [{value, label}]}}`` (one query)."""
    rows = HumanRequest.objects.filter(tab_filter(viewer, "all")).order_by("-created", "-id")
    columns = ("workflow", "step", "kind", "assignee__username", "by")
    found: dict[str, set[str]] = {name: set() for name in ("workflow", "step", "kind", "assignee", "by")}
    for workflow, step, kind, assignee, by in rows.values_list(*columns)[:MOST]:
        for name, value in (("workflow", workflow), ("step", step), ("kind", kind), ("assignee", assignee or "")):
            found[name].add(value)
        found["by"].update(by)
    named = catalog.titles()
    values = {name: [_said(value) for value in sorted(words - {""})] for name, words in found.items()}
    values["workflow"] = [_said(name, named.get(name, "")) for name in sorted(found["workflow"])]
    values["assignee"] = [_said("me"), _said("none"), *values["assignee"]]
    values["by"] = [_said("me"), *values["by"]]
    values |= {name: [_said(value) for value in words] for name, words in FIXED.items()}
    keys = [{"key": key, "example": example, "meaning": MEANINGS[key]} for key, example in EXAMPLES.items()]
    return {"keys": keys, "values": values}


def _said(value: str, label: str = "") -> dict[str, str]:
    quoted = f'"{value}"' if " " in value or "," in value else value
    return {"value": quoted, "label": label if label != value else ""}

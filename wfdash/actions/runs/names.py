"""What a run is called when it is created: stored as content, so encrypted where the settings name keys."""

from __future__ import annotations

from checkpoints.models import Run
from checkpoints.records import Json
from wfdash import catalog
from wfdash.domain.run_titles import summary_of, title_of


def names_of(entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return the columns that name a run with this input: its own title, and the summary of its input."""
    described = entry.description
    own = title_of(described.run_title, message, entry.secrets) if described.run_title else ""
    return {"own_title": own or None, "summary": summary_of(message, described.input_schema, entry.secrets) or None}


def names_of_follow_up(earlier: Run, entry: catalog.Entry, message: Json) -> dict[str, str | None]:
    """Return those of a run that follows another: the thread keeps its title, the summary is that of the message."""
    summary = summary_of(message, entry.description.follow_up_schema or {}, entry.secrets)
    return {"own_title": earlier.own_title, "summary": summary or None}


def names_of_fork(origin: Run, message: Json) -> dict[str, str | None]:
    """Return those of a fork: its origin's, unless it has another input."""
    entry = catalog.find(origin.workflow)
    if entry is None or message == origin.input:
        return {"own_title": origin.own_title, "summary": origin.summary}
    return names_of(entry, message)

"""One action on many runs."""

from __future__ import annotations

from wfdash.records.base import ApiRecord, Body


class BulkOrder(Body):
    """The action (retry, cancel, pause, resume, tag), and the runs: their ids, or with ``all`` what ``q`` finds."""

    verb: str
    runs: list[str] = []
    q: str = ""
    all: bool = False
    add: list[str] = []
    remove: list[str] = []
    dry_run: bool = False


class Unchanged(ApiRecord):
    """Why runs would be unchanged, and how many."""

    why: str
    count: int


class BulkRehearsal(ApiRecord):
    """A preview: how many runs would accept, and how many would be unchanged."""

    verb: str
    acts: int
    stays: list[Unchanged]
    runs: list[str]


class UnchangedRun(ApiRecord):
    """A run that stayed as it was, and why."""

    run: str
    title: str
    why: str


class BulkProgress(ApiRecord):
    """The progress. ``acted`` of ``done`` runs accepted; ``stayed`` names at most 200 that did not."""

    id: str
    verb: str
    runs: int
    done: int
    acted: int
    finished: bool
    stays: list[Unchanged]
    stayed: list[UnchangedRun]

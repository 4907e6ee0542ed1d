"""The API's input and output. The field names are the dashboard's own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema

from wfdash.api.bodies import Body


class RunOut(Schema):
    """A run in a list."""

    id: str
    workflow: str
    title: str
    workflow_title: str
    status: str
    created: datetime
    updated: datetime
    finished: datetime | None
    created_by: str
    seq: int
    n: int
    waiting_for: list[str]
    progress: dict[str, Any]
    tags: list[str] = []
    failure: str = ""
    altered: str = ""


class RunDetail(RunOut):
    """A run. Values are null for people who may not inspect them."""

    version: str
    engine: str
    input: Any = None
    output: Any = None
    error: dict[str, Any] | None = None
    origin_run: str | None = None
    origin_checkpoint: str | None = None


class RunPage(Schema):
    """A page of the list; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only runs newer than this were scanned yet.
    """

    items: list[RunOut]
    next: str
    reached: datetime | None = None


class SkewOut(Schema):
    """How a run's graph differs from the loaded one, and what migrating the run would do. Empty: it does not."""

    old: str = ""
    new: str = ""
    held: bool = False
    changes: list[str] = []
    how: str
    words: list[str]
    refusal: str
    before: Any = None
    after: Any = None
    steps_before: list[str]
    steps_after: list[str]
    closes: list[str]


class RequestOut(Schema):
    """A request as a list shows it."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    risk: str
    by: list[str]
    due: datetime | None
    created: datetime
    answered: datetime | None
    answered_by: str
    verdict: str
    closed_as: str


class RequestPage(Schema):
    """A page of an inbox tab."""

    items: list[RequestOut]
    next: str


class RequestDetail(Schema):
    """A request with its card and the schema that answers must match."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    card: dict[str, Any]
    answer_schema: dict[str, Any]
    by: list[str]
    not_by: list[str]
    due: datetime | None
    created: datetime
    state: str
    seen: str
    assignee: str
    asked: datetime | None
    refusal: str
    need: int
    votes: int
    unanswerable: str
    """Why no one can decide it, as text; empty where someone can."""
    suggestion: dict[str, Any] | None


class StartIn(Body):
    """Start a run; the same ``key`` starts it once."""

    workflow: str
    message: Any = None
    key: str | None = None


class AnswerIn(Body):
    """An answer; its value must match the request's own schema."""

    value: Any = None
    verdict: str = ""
    reason: str = ""
    seen: str = ""
    """The request's ``seen`` as it was read: the answer counts only for that."""
    undo: bool = False
    """Let it take effect only after the time in which it can be undone."""
    override: bool = False
    """As an operator, decide instead of those it is addressed to; needs a reason."""
    on_behalf_of: str = ""
    """As an operator, record what this person decided; needs a reason."""


class AnswerOut(Schema):
    """The answer that was accepted. ``settles``: it can be undone until then.

    Where several must agree it is a vote: ``votes`` people say this, ``need`` must; ``decided``: enough do.
    """

    request: str
    verdict: str
    value: Any
    at: datetime
    settles: datetime | None = None
    stands: str = ""
    votes: int = 1
    need: int = 1
    decided: bool = True


class CheckpointOut(Schema):
    """A checkpoint without its content. ``lane`` 0 is the current branch."""

    id: str
    n: int
    parent: str | None
    step: str | None
    reason: str
    label: str | None
    created: datetime
    size: int
    seq: int
    clean: bool
    flaw: str
    """Why it cannot be read, where it is damaged."""
    waiting: int
    """How many requests are pending there."""
    facts: dict[str, Any]
    """Metadata its owner stored with it; empty for people who may not inspect values."""
    lane: int
    head: bool
    by: str = ""


class CheckpointPage(Schema):
    """A page of the tree, newest first; ``before`` is the next page's, 0 at the end."""

    items: list[CheckpointOut]
    total: int
    before: int


class CheckpointDetail(Schema):
    """A checkpoint with its content."""

    id: str
    n: int
    parent: str | None
    created: datetime
    facts: dict[str, Any]
    body: dict[str, Any]
    requests: list[dict[str, Any]]
    problem: str


class EventOut(Schema):
    """One event; ``seq`` has no gaps per run."""

    seq: int
    kind: str
    step: str | None
    data: dict[str, Any]
    at: datetime


class Created(Schema):
    """The id of what was created."""

    id: str
    n: int = 0

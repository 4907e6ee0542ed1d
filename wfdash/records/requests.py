"""Requests, answers, and what people say about them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, Field

from wfdash.records.base import ApiRecord, Body, Described, DescribedRecord, Page, ScannedPage

# The inbox as a whole: counts, decisions made, many requests at once.


Tab: TypeAlias = Literal["mine", "groups", "unassigned", "asked", "snoozed", "all", "answered"]
"""A tab of the inbox."""


class InboxCounts(ApiRecord):
    """How many requests each tab of the inbox has."""

    tabs: dict[str, int]


class DecisionRecord(ApiRecord):
    """A request that was answered. ``outcome``: how it was decided; ``reversed``: the run was restored before it.

    ``answered_by``: who decided, for those who may read the values of the workflow, and for that person.
    """

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    created: datetime
    answered: datetime
    outcome: str
    verdict: str
    reversed: bool
    answered_by: str = ""

    @property
    def took(self) -> timedelta:
        """Return how long it was open."""
        return max(self.answered - self.created, timedelta())


class DecisionPage(ScannedPage[DecisionRecord]):
    """A page of decisions, the latest first; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only decisions later than this were scanned yet.
    """


class Remark(ApiRecord):
    """What someone said about a request. ``by``: as ``answered_by`` of the decision."""

    by: str
    kind: str
    text: str
    at: datetime


class DecisionExample(DecisionRecord):
    """A decision as an example: one line of the export. Secrets are masked.

    ``answered_by``: the groups of who decided, or the name where that was asked for; empty for a deadline.
    ``edit``: a JSON Patch (RFC 6902) from ``proposal`` to what was decided; null where nothing was edited.
    """

    version: str
    card: dict[str, Any]
    proposal: Any = None
    value: Any = None
    edit: list[dict[str, Any]] | None = None
    reason: str = ""
    comments: tuple[Remark, ...] = ()


class ChosenRequest(Body):
    """A request, and its ``seen`` as it was read: the answer counts only for that."""

    id: str
    seen: str


class AnswerMany(Body):
    """One answer for several requests of one kind, at most 500."""

    requests: Annotated[list[ChosenRequest], Field(min_length=1, max_length=500)]
    value: Any = None
    verdict: str = ""


class AssignMany(Body):
    """Requests, at most 200, and the user name they are assigned to; null: to no one."""

    requests: Annotated[list[str], Field(min_length=1, max_length=200)]
    to: str | None = None


class RequestOutcome(ApiRecord):
    """What became of a request. ``problem``: why it is unchanged, empty if it was done."""

    request: str
    subject: str
    problem: str = ""


class OutcomeList(Page[RequestOutcome]):
    """What became of each request."""


class UndoMany(Body):
    """Requests whose answers to undo, at most 500."""

    requests: Annotated[list[str], Field(min_length=1, max_length=500)]


class UndoneCount(ApiRecord):
    """How many answers were undone, and for how many it was too late."""

    undone: int
    late: int


class RequestSummary(ApiRecord):
    """A request as a list shows it."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    subject: str
    risk: str
    by: tuple[str, ...]
    due: datetime | None
    created: datetime
    answered: datetime | None
    answered_by: str
    verdict: str
    closed_as: str


class RequestPage(Page[RequestSummary]):
    """A page of an inbox tab."""


class GivenAnswer(DescribedRecord):
    """The answer of a request. ``value`` is null for people who may not read it."""

    by: str
    at: datetime
    verdict: str
    value: Any = None
    stands: str = ""
    reason: str = ""
    acting_for: str = ""
    settles: datetime | None = None
    """It takes effect at this time; until then it can be undone."""
    rule: int | None = None
    """The rule that gave it, instead of a person."""


class RequestFacts(DescribedRecord):
    """A request with its card and the schema that answers must match."""

    id: str
    run: str
    run_title: str
    workflow: str
    step: str
    kind: str
    card: dict[str, Any]
    answer_schema: dict[str, Any]
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    created: datetime
    state: str
    seen: str
    assignee: str
    asked: datetime | None
    refusal: str
    suggestion: dict[str, Any] | None
    key: str = ""
    """Its name within the run, by which the code asked."""
    subject: str = ""
    requester: str = ""
    """Who started the run."""
    answer: GivenAnswer | None = None
    """Null while it is open."""


class RequestDetail(RequestFacts):
    """A request with its card, the schema that answers must match, and its votes."""

    need: int
    votes: int
    unanswerable: str
    """Why no one can decide it, as text; empty where someone can."""


class GiveAnswer(Described, Body):
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
    as_text: bool = False
    """A text that reads like yes or no is meant as text, where the question does not say what it takes."""


class AcceptedAnswer(ApiRecord):
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


class WriteComment(Body):
    """A text: ``kind`` comment, ask (a question back) or reply (to it); markdown."""

    text: str
    kind: Literal["comment", "ask", "reply"] = "comment"


class CommentRecord(ApiRecord):
    """A line of the thread."""

    id: str
    by: str
    kind: str
    text: str
    mentions: tuple[str, ...]
    at: datetime


class CommentPage(Page[CommentRecord]):
    """The thread of a request, oldest first, all of it."""


class Assign(Body):
    """Assignee user name, or null."""

    to: str | None = None


class Assignment(ApiRecord):
    """The current assignee."""

    request: str
    assignee: str


class SetDeadline(Body):
    """The new deadline: a time with an offset."""

    due: AwareDatetime


class Deadline(ApiRecord):
    """The deadline."""

    request: str
    due: datetime


class SetSnooze(Body):
    """Until when it stays out of your own queue: a time with an offset; null: it comes back now."""

    until: AwareDatetime | None = None


class Snoozed(ApiRecord):
    """Until when it stays out of your own queue, null if it does not, and when it is due: that may be before."""

    request: str
    until: datetime | None
    due: datetime | None


class SaveDraft(Body):
    """A draft of an answer: field names and values as a browser sends them."""

    fields: dict[str, list[str]]


class DraftRecord(ApiRecord):
    """A draft of an answer: field names and values as a browser sends them."""

    fields: dict[str, list[str]]
    at: datetime


class Amend(Body):
    """An addition to the card: markdown for the body, pieces of evidence ``{kind, title, value}``."""

    body: str = ""
    evidence: list[dict[str, Any]] = []


class PersonPresent(ApiRecord):
    """A person who has the request open."""

    name: str
    since: datetime
    typing: bool


class PresencePage(Page[PersonPresent]):
    """The people who have a request open."""


class CreateRule(Body):
    """A new rule: which step's requests, the condition that must hold of their cards, and what to answer.

    ``quota``: answers a day; ``days``: beside people before it can be switched on; ``lasts``: days until it expires;
    ``share``: of what fits, how much still goes to people.
    """

    workflow: str
    step: str
    condition: str
    action: str = "approve"
    quota: int = Field(default=20, ge=1, le=10_000)
    days: int = Field(default=7, ge=1, le=90)
    lasts: int = Field(default=90, ge=1, le=366)
    share: float = Field(default=0.05, ge=0.05, le=1.0)


class MoveRule(Body):
    """What becomes of a rule: ``rehearsed``, ``shadow``, ``on`` or ``suspended``. ``reason``: why it is suspended."""

    to: Literal["rehearsed", "shadow", "on", "suspended"]
    reason: str = ""


class RuleDifference(ApiRecord):
    """A decision that people made in another way than the rule would have."""

    request: str
    verdict: str


class RehearsalRecord(ApiRecord):
    """What a rule would have answered. ``fitting`` and ``rest``: how people decided what fits and all else.

    ``agreed``: those of ``fitting`` that people decided as the rule; ``against``: the latest of the others.
    ``money``: the sums of ``field`` in those that agree and in the others. ``unread``: how many could not be read.
    """

    looked: int
    unread: int
    since: datetime | None
    fitting: dict[str, int]
    rest: dict[str, int]
    agreed: int
    against: tuple[RuleDifference, ...]
    field: str = ""
    money: tuple[float, ...] = ()

    @property
    def fits(self) -> int:
        """Return how many it would have answered."""
        return sum(self.fitting.values())


class RuleSummary(ApiRecord):
    """A rule. ``state``: draft, rehearsed, shadow, on or suspended, ``since`` when; ``problem``: why it is suspended.

    ``answered``: how many requests it answered; ``agreed`` and ``differed``: how people decided those that fit and were
    left to them.
    """

    id: int
    name: str
    workflow: str
    step: str
    kind: str
    condition: str
    action: str
    state: str
    since: datetime
    owner: str
    created: datetime
    expires: datetime
    quota: int
    days: int
    share: float
    switched_by: str
    problem: str
    answered: int = 0
    agreed: int = 0
    differed: int = 0


class RulePage(Page[RuleSummary]):
    """A page of rules, the newest first."""


class RuleUseRecord(ApiRecord):
    """A request that fits a rule: ``answer`` (by the rule), ``sample`` or ``shadow`` (decided by people).

    ``agrees``: whether people decided as the rule would have. What is still with people is not listed.
    """

    request: str
    subject: str
    kind: str
    verdict: str
    at: datetime
    agrees: bool | None


class RuleDetail(RuleSummary):
    """A rule with its rehearsal and its latest uses, those first where people differed."""

    rehearsal: RehearsalRecord | None = None
    uses: tuple[RuleUseRecord, ...] = ()

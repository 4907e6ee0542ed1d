"""A policy: who decides, how many of them, by when, and which answer counts after a deadline. Pure.

The engine resolves and stores it with the request; only the actions on requests enforce it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from checkpoints.records import Answer, Request
from wfdash.contract import Addressees
from wfdash.domain.labels import in_words
from wfdash.values.errors import InvalidCall
from wfdash.values.fingerprints import note_of

# The policy of one question: the arguments of ``ctx.ask`` over the policy it was given. Pure.


def policy_of(policy: Policy | None, arguments: Mapping[str, Any]) -> Policy:
    """Return the policy with the arguments of ``ctx.ask``. ``InvalidCall`` if one is given twice, or is invalid."""
    given = {name: value for name, value in arguments.items() if value not in ((), "", None)}
    twice = given.keys() & (policy.model_fields_set if policy else set())
    if twice:
        raise InvalidCall(f"ctx.ask got {sorted(twice)[0]}= twice: as an argument and in policy=")
    try:
        return Policy(**given).over(policy)
    except ValidationError as error:
        raise InvalidCall(f"ctx.ask: {error.errors()[0]['msg']}") from error


def refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Raise ``InvalidCall`` for arguments that ``ctx.ask`` has not: those of a policy go into one."""
    for name in arguments:
        remedy = f"give policy=Policy({name}=...)" if name in Policy.model_fields else "see its docstring"
        raise InvalidCall(f"ctx.ask takes no {name}=: by, not_by and due are its own, {remedy}")


HIGH_RISK = 3
Moment = Literal["remind", "escalate", "timeout"]


def read_names(value: Any) -> Any:
    """Return one name or several as a tuple."""
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(read_names)]


class DefaultAnswer(BaseModel):
    """The answer that counts when the deadline passes, where its text could be mistaken for ``reject`` or ``fail``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: Any


class Policy(BaseModel):
    """How a request is decided. Durations: ``"30m"``, ``"4h"``, ``"2d"``, seconds or a ``timedelta``.

    ``Policy(by="finance", need=2, not_by="requester", due="4h", remind="1h", escalate="cfo", on_timeout="reject")``
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    by: Names = ()
    """Users or groups that may answer (``requester``: the person who started the run); empty: every reviewer."""
    need: int = Field(default=1, ge=1, le=100)
    """How many people must agree. One rejection decides at once, unless ``veto=False``."""
    veto: bool = True
    not_by: Names = ()
    """Users or groups that may not. ``requester``: who started the run, edited its values or created its schedule."""
    due: Span | None = Field(default=None, gt=timedelta())
    """The deadline, from when the request opens."""
    remind: Span | None = Field(default=None, gt=timedelta())
    """How long before the deadline those who may answer are reminded."""
    escalate: Names = ()
    """Who may answer, too, once the deadline (or ``escalate_after``) has passed."""
    escalate_after: Span | None = Field(default=None, gt=timedelta())
    on_timeout: Any = None
    """``reject``, ``fail`` (the run fails, the request stays open), an action's name, or the answer that then counts.

    With ``escalate`` at the deadline, the deadline's length passes once more before it counts.
    """
    undo: Span | None = Field(default=None, ge=timedelta())
    """How long an answer can be undone before it takes effect; None: the installation's setting, 0: not at all."""
    override: bool = True
    """Whether an operator may decide instead of those it is addressed to, alone and with a reason. If not, no one may
    answer on behalf of another either, and it is assigned only to those it is addressed to.
    """
    batch: bool = True
    """Whether it may be decided together with similar ones."""
    rules: int = Field(default=1, ge=0, le=2)
    """How many people it takes to let a rule answer: False: no rule may; 2: another than its maker switches it on."""
    untrusted: Names = ()
    """Values of the card that an outsider could choose (``proposal.note``, ``context``): no rule may read them."""
    blind: float = Field(default=0, ge=0, le=1)
    """The share of decisions that a second person is asked for, too, who is not shown the first one."""
    prereview: str = Field(default="", max_length=40)
    """The action that the author's own reviewer, a function or an agent, would choose: no card shows it."""
    sign: Literal["passkey"] | None = None
    """``passkey``: the person who answers signs with theirs, on the request's page alone, and has a receipt."""
    meaning: Literal["approval", "review", "authorship"] = "approval"
    """What the signature means: it is signed, too."""
    tiers: Callable[[Any], Policy | None] | None = Field(default=None, exclude=True, repr=False)
    """``f(proposal)`` -> the policy for this amount, this region ...; its settings override those here."""

    if TYPE_CHECKING:
        # What it takes is wider than what it holds: type checkers know only the latter.
        def __init__(
            self,
            *,
            by: str | Sequence[str] = (),
            need: int = 1,
            veto: bool = True,
            not_by: str | Sequence[str] = (),
            due: Duration | None = None,
            remind: Duration | None = None,
            escalate: str | Sequence[str] = (),
            escalate_after: Duration | None = None,
            on_timeout: Any = None,
            undo: Duration | None = None,
            override: bool = True,
            batch: bool = True,
            rules: bool | int = True,
            untrusted: str | Sequence[str] = (),
            blind: float = 0,
            prereview: str = "",
            sign: Literal["passkey"] | None = None,
            meaning: Literal["approval", "review", "authorship"] = "approval",
            tiers: Callable[[Any], Policy | None] | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.remind and (self.due is None or self.remind >= self.due):
            raise ValueError("remind: say how long before the deadline, and give due= a longer time")
        if self.escalate and self.due is None and self.escalate_after is None:
            raise ValueError("escalate: give due= or escalate_after=, so that it is known when")
        if self.escalate_after and not self.escalate:
            raise ValueError("escalate_after: say to whom with escalate=")
        if self.on_timeout is not None and self.due is None:
            raise ValueError("on_timeout: give due=, so that it is known when")
        if self.sign and self.on_timeout not in (None, "reject", "fail"):
            raise ValueError("sign: no one signs at a deadline, so on_timeout= is reject or fail")
        return self

    def over(self, base: Policy | None) -> Policy:
        """Return this policy with missing settings taken from ``base``."""
        if base is None:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Policy(**{**{name: getattr(base, name) for name in base.model_fields_set}, **given})

    def resolved(self, proposal: Any) -> Policy:
        """Return the policy for one proposal, with its tier applied."""
        if self.tiers is None:
            return self
        rest = self.model_copy(update={"tiers": None})
        chosen = self.tiers(proposal)
        return rest if chosen is None else chosen.over(rest).resolved(proposal)

    def stored(self) -> dict[str, Any]:
        """Return it as JSON, without unset fields."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def moments(self, opened: datetime, due: datetime | None) -> Iterator[tuple[datetime, Moment]]:
        """Yield its moments, in order of time. ``due``: the current deadline, maybe extended."""
        found: list[tuple[datetime, Moment]] = []
        if self.remind and due:
            found.append((due - self.remind, "remind"))
        if self.escalate and self.escalate_after:
            found.append((opened + self.escalate_after, "escalate"))
        elif self.escalate and due:
            found.append((due, "escalate"))
        if self.on_timeout is not None and due and self.due:
            again = self.due if self.escalate and not self.escalate_after else timedelta()
            found.append((due + again, "timeout"))
        yield from sorted(found, key=lambda moment: moment[0])

    def next_alarm(self, opened: datetime, due: datetime | None, after: datetime) -> datetime | None:
        """Return the first moment later than ``after``, None if there is none."""
        return next((at for at, _ in self.moments(opened, due) if at > after), None)

    def between(self, opened: datetime, due: datetime | None, alarm: datetime, now: datetime) -> Sequence[Moment]:
        """Return what is due now: every moment from ``alarm`` to ``now``, however late that is."""
        return [what for at, what in self.moments(opened, due) if alarm <= at <= now]


def default_answer(on_timeout: Any, schema: Mapping[str, Any]) -> Any:
    """Return the answer that counts after a deadline; ``fail`` has none, see there."""
    if isinstance(on_timeout, dict) and on_timeout.keys() == {"answer"}:
        return on_timeout["answer"]
    properties = schema.get("properties", {})
    if isinstance(on_timeout, str) and on_timeout in properties.get("action", {}).get("enum", ()):
        reason = {"reason": "Not answered in time."} if "reason" in properties else {}
        return {"action": on_timeout, **reason}
    return on_timeout


def is_lapse(request: Request, answer: Answer) -> bool:
    """Return whether an answer counts because no person gave one in time."""
    late = answer.by is None and answer.at is not None and request.due is not None and answer.at >= request.due
    on_timeout = request.policy.get("on_timeout")
    return late and on_timeout is not None and bool(answer.value == default_answer(on_timeout, request.answer_schema))


def alone_because(risk: int, policy: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """Return why a request must not be decided together with similar ones; empty if it may. ``risk``: 3 is high."""
    if note_of(card):
        return "Asked again after a change: decide it individually"
    if risk >= HIGH_RISK:
        return "High risk: decide it individually"
    if policy.get("sign"):
        return "Signed with a passkey: decide it individually"
    return "" if Policy.model_validate(policy).batch else "The workflow requires individual decisions"


def span_words(span: timedelta) -> str:
    """Return a duration as text: ``4 h``, ``1 d 12 h``, ``30 min``."""
    seconds = int(span.total_seconds())
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def sentence(policy: Policy) -> str:
    """Return the policy as people read it on a card. Empty for an empty policy."""
    signed = f"Signed with a passkey, as {policy.meaning}." if policy.sign else ""
    return " ".join(part for part in (_who(policy), signed, _when(policy)) if part)


def _who(policy: Policy) -> str:
    if not (policy.by or policy.not_by or policy.need > 1):
        return ""
    if policy.need > 1:
        who = f"Needs {policy.need} votes from {_names(policy.by) or 'reviewers'}."
    else:
        who = f"Decided by {_names(policy.by) or 'any reviewer'}."
    but = f" Excluded: {_names(policy.not_by)}." if policy.not_by else ""
    veto = " One rejection rejects." if policy.need > 1 and policy.veto else ""
    return f"{who}{but}{veto}"


def _when(policy: Policy) -> str:
    parts = []
    if policy.due:
        remind = f"; reminder {span_words(policy.remind)} before" if policy.remind else ""
        parts.append(f"Due in {span_words(policy.due)}{remind}.")
    if policy.escalate:
        when = f"After {span_words(policy.escalate_after)}" if policy.escalate_after else "Then"
        parts.append(f"{when} {_names(policy.escalate)} can also decide.")
    if policy.on_timeout is not None and policy.due:
        total = policy.due * 2 if policy.escalate and not policy.escalate_after else policy.due
        parts.append(f"{_fallback(policy.on_timeout)} after {span_words(total)}.")
    if policy.blind:
        parts.append("Of some decisions a second person is asked, too.")
    return " ".join(parts)


def _fallback(on_timeout: Any) -> str:
    if on_timeout == "fail":
        return "Fails"
    if isinstance(on_timeout, str):
        text = {"reject": "Rejected", "approve": "Approved"}.get(on_timeout, f"Answered “{on_timeout}”")
        return f"{text} automatically"
    return "Default answer applied"


def _names(names: Sequence[str]) -> str:
    parts = ["the requester" if name == "requester" else name for name in names]
    return in_words(parts, "or")


def addressees_of(step: str, policy: Policy, *, certain: bool = True) -> Addressees:
    """Return whom a step's questions are addressed to by this policy. What tiers decide is not ``certain``."""
    return Addressees(
        step=step,
        by=policy.by,
        not_by=policy.not_by,
        escalate=policy.escalate,
        need=policy.need,
        override=policy.override,
        certain=certain and policy.tiers is None,
    )


# Durations as authors write them: ``"4h"``, ``"1d 12h"``, seconds or a ``timedelta``, wherever one is meant.

Duration: TypeAlias = str | float | timedelta
"""``"30s"``, ``"30m"``, ``"4h"``, ``"2d"``, ``"1w"``, ``"1d 12h"``; a number means seconds."""

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


def read_duration(value: Any) -> Any:
    """Return a duration from text such as ``"4h"`` or ``"1d 12h"`` (s, m, h, d, w); anything else is left to pydantic
    to refuse.
    """
    if not isinstance(value, str):
        return value
    parts = PART.findall(value)
    if not parts or PART.sub("", value).strip():
        raise ValueError(f"{value!r} is no duration: write 30m, 4h, 2d or 1d 12h")
    return sum((timedelta(**{UNITS[unit]: float(number)}) for number, unit in parts), timedelta())


def seconds_in(value: Any) -> Any:
    """Return a duration in seconds; what is none is left to pydantic to refuse."""
    span = read_duration(value)
    return span.total_seconds() if isinstance(span, timedelta) else span


def span_of(value: Duration) -> timedelta:
    """Return a duration as a timedelta. ``ValueError`` says how to write one."""
    span = read_duration(value)
    if isinstance(span, timedelta):
        return span
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not math.isfinite(span):
        raise ValueError(f"{value!r} is no duration: write 30m, 4h, 2d, seconds or a timedelta")
    return timedelta(seconds=span)


Span = Annotated[
    timedelta, BeforeValidator(read_duration), PlainSerializer(lambda span: span.total_seconds(), return_type=float)
]
Seconds = Annotated[float, BeforeValidator(seconds_in)]

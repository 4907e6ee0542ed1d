"""Decisions shared by all storages, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from enum import IntEnum
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Any

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.chunks import digest
from checkpoints.errors import AlreadyAnswered, Conflict, Damaged, Incompatible, InvalidValue
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestId, RequestKey, RunId
from checkpoints.limits import NAME, as_name, is_storable, oversize
from checkpoints.limits import check_label as check_label
from checkpoints.records import ENDED, FORMAT, Answer, CheckpointInfo, Commit, EventDraft, Json, JsonObject, Phase

TIMED = frozenset({Phase.WAITING, Phase.SLEEPING, Phase.RETRYING})
"""Phases that an answer or a wake time turns into ready."""


class Priority(IntEnum):
    """Which run that is ready a worker takes first; of equals the one that has been ready longest."""

    RESUMED = 10
    """Someone acted on a run and waits for what follows: an answer, a signal, a restored checkpoint."""
    STARTED = 5
    """A person or a program started it, or resumed, retried or migrated it."""
    TIMED = 0
    """Its time has come (schedule, timer), its worker has gone, or its code is there again."""


SUSPECT = 2
"""Takeovers in a row, without a checkpoint in between, that make a run a crash suspect."""
MAX_DEATHS = 5
"""Workers that may die with a run as their only suspect before the run is failed."""
TAKEOVER_DELAYS = (0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300)
"""Seconds to wait before the next takeover, by how many there were in a row; the last value for all more."""

RISKS = {"low": 1, "medium": 2, "high": 3}

UNREADABLE = "its metadata cannot be read"
NEVER = datetime.fromtimestamp(0, UTC)
"""What is read in place of a time that cannot be."""

BUDGET = "@budget."
"""How the keys of questions about a run's budget begin; those of engines begin with the name of a step."""
MAX_LABEL = NAME
"""Characters of a checkpoint's label."""


DEADLINE = "a deadline"


def rule_name(number: int | None) -> str:
    """Return what a rule is called, empty for none: ``rule r7``."""
    return f"rule r{number}" if number else ""


def is_suspect(attempts: int) -> bool:
    """Return whether a run taken over so many times in a row may be what kills its workers."""
    return attempts >= SUSPECT


def is_given_up(attempts: int) -> bool:
    """Return whether a run was taken over so often that it is no longer run."""
    return attempts >= SUSPECT + MAX_DEATHS


def taken_over(attempts: int, before: str | None, worker: str) -> int:
    """Return the takeovers in a row once ``worker`` has the run; ``before``: the worker with the expired claim.

    A worker that claims its own run again has not died, so that is no takeover.
    """
    return attempts + (before is not None and before != worker)


def times_of(events: Sequence[EventDraft]) -> tuple[datetime | None, ...]:
    """Return the time of each event, in order and never going back; empty if none has a time of its own.

    After an event without one, which happens at the commit, there is no earlier time.
    """
    if not [event for event in events if event.at is not None]:
        return ()
    times: list[datetime | None] = []
    for event in events:
        last = times[-1] if times else event.at
        times.append(None if last is None or event.at is None else max(event.at, last))
    return tuple(times)


def title_in(events: Iterable[EventDraft]) -> str | None:
    """Return the title that a commit gives its run, None if none."""
    titles = [event.data.get("title") for event in events if event.kind == EventKind.RUN_TITLED]
    return str(titles[-1]) if titles else None


# What models use and cost. Money is counted in billionths of the currency (nanos), as whole numbers, so that sums stay
# exact; an event has it as a decimal number in text.

NANOS = 10**9
MOST_TOKENS = 10**9
"""Tokens in, or out, that one event may have."""
MOST_COST = 10_000
"""Units of the currency that one event may cost."""
Prices = Mapping[str, Sequence[object]]
"""Pattern of a model's name (``*`` for any characters) -> price of a million tokens in, and of a million out."""
USED = ("input_tokens", "output_tokens", "cost", "unpriced")
"""The columns of a run that sum up its usage: tokens, nanos, and the tokens whose cost is unknown."""


def usage_of(
    model: object, tokens_in: object, tokens_out: object, cost: object = None, provider: object = None
) -> JsonObject:
    """Return the fields of an event of kind ``usage``. ``InvalidValue`` names the one that is wrong, and the remedy."""
    used: JsonObject = {"model": model} if provider is None else {"model": model, "provider": provider}
    for name, text in used.items():
        if not isinstance(text, str) or not text.strip() or len(text) > NAME or not is_storable(text):
            raise InvalidValue(f"{said(name, text)}: give its name, text of 1 to {NAME} characters", field=name)
    for name, count in (("input", tokens_in), ("output", tokens_out)):
        if type(count) is not int or not 0 <= count <= MOST_TOKENS:
            text = f"{said(name, count)}: give the number of tokens, a whole number from 0 to {MOST_TOKENS:,}"
            raise InvalidValue(text, field=name)
    used |= {"input_tokens": tokens_in, "output_tokens": tokens_out}
    return used if cost is None else {**used, "cost": money_text(nanos_of(cost, said("cost", cost), "cost"))}


def reported_usage(model: object, tokens_in: object, tokens_out: object, provider: object = None) -> JsonObject | None:
    """Return the same of what a library reports, without what cannot be meant; None if that is no token."""
    counts = [count if type(count) is int and 0 < count <= MOST_TOKENS else 0 for count in (tokens_in, tokens_out)]
    found = usage_of(as_name(model) or "unknown", counts[0], counts[1], provider=as_name(provider) or None)
    return found if any(counts) else None


def said(name: str, given: object) -> str:
    """Return an argument as a message names it. Python refuses to write integers of thousands of digits."""
    return f"{name}={given!r:.80}" if type(given) is not int or abs(given) < 10**80 else f"{name}: too large"


def nanos_of(amount: object, said: str, field: str, most: int = MOST_COST) -> int:
    """Return an amount in billionths. ``InvalidValue`` for anything but a number from 0 to ``most``."""
    try:
        number = Decimal(repr(amount) if type(amount) is float else amount)  # type: ignore[arg-type]
        if type(amount) is not bool and 0 <= number <= most:
            return int((number * NANOS).to_integral_value())
    except (DecimalException, TypeError, ValueError):
        pass
    raise InvalidValue(f"{said}: give an amount from 0 to {most:,}, as Decimal, text or number", field=field)


def money_text(nanos: int) -> str:
    """Return an amount as a decimal number in text: ``0.00045``."""
    text = f"{Decimal(nanos) / NANOS:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cost_of(nanos: int, unpriced: int) -> str | None:
    """Return a sum of costs as text; None where no cost is known of what was used."""
    return None if unpriced and not nanos else money_text(nanos)


def used_in(data: Mapping[str, Json]) -> tuple[int, int, int, int]:
    """Return what an event of kind ``usage`` adds to each of ``USED``; nothing where it says what cannot be meant."""
    got, gave, cost = (data.get(name) for name in USED[:3])
    try:
        used = usage_of(data.get("model"), got or 0, gave or 0, cost)
    except InvalidValue:
        return (0, 0, 0, 0)
    tokens = used["input_tokens"], used["output_tokens"]
    return (*tokens, 0, sum(tokens)) if cost is None else (*tokens, int(Decimal(used["cost"]) * NANOS), 0)


def all_used(events: Iterable[EventDraft]) -> tuple[int, ...] | None:
    """Return what a commit adds to each of ``USED``, None if it has no usage."""
    found = [used_in(event.data) for event in events if event.kind == EventKind.USAGE]
    return tuple(map(sum, zip(*found, strict=True))) if found else None


def priced(commit: Commit, prices: Prices) -> Commit:
    """Return the commit with the cost of what models used, where its author has not named it and there is a price."""
    if not prices or all(event.kind != EventKind.USAGE for event in commit.events):
        return commit
    events = list(commit.events)
    for place, event in enumerate(events):
        if event.kind != EventKind.USAGE or "cost" in event.data:
            continue
        model = str(event.data.get("model"))
        price = next((each for pattern, each in prices.items() if fnmatchcase(model, pattern)), None)
        if price is not None:
            tokens = used_in(event.data)[:2]
            # A millionth of the price, in billionths.
            nanos = sum(count * Decimal(str(one)) * 1_000 for count, one in zip(tokens, price, strict=True))
            cost = min(int(Decimal(nanos).to_integral_value()), MOST_COST * NANOS)
            events[place] = event.model_copy(update={"data": {**event.data, "cost": money_text(cost)}})
    return commit.model_copy(update={"events": tuple(events)})


def read_pairs(name: str, text: str, least: int) -> dict[str, tuple[str | None, ...]]:
    """Return the pairs of amounts that a variable names: ``gpt-5-mini=0.25/2,claude-*=3/15``. Raises as
    ``check_pairs``.
    """
    parts = [part.rpartition("=") for part in text.split(",") if part.strip()]
    pairs = {
        pattern.strip(): tuple(one.strip() or None for one in given.partition("/")[::2]) for pattern, _, given in parts
    }
    check_pairs(name, pairs, least)
    return pairs


def check_pairs(name: str, pairs: Mapping[str, Sequence[object]], least: int) -> None:
    """Raise ``ValueError``, naming what is wrong, unless each has two amounts, of which ``least`` are not None."""
    for pattern, pair in pairs.items():
        if not pattern or not isinstance(pair, tuple | list) or len(pair) - pair.count(None) < least or len(pair) != 2:
            raise ValueError(f"{name}: {pattern!r}: {pair!r}: give {least} of 2 amounts or more: NAME=AMOUNT/AMOUNT")
        for amount in filter(None, pair):
            nanos_of(amount, f"{name}: {pattern!r}: {amount!r}", name, 10**12)


def refuse_held(run: RunId, worker: str, expires: datetime) -> None:
    """Raise ``Conflict``: a live claim holds the run."""
    until = expires.isoformat(timespec="seconds")
    text = f"the run is claimed by {worker} until {until}, unless the claim is renewed: let it end"
    raise Conflict(text, run=run, worker=worker, expires=expires)


def refuse_stopped(run: RunId, phase: Phase, acted_by: str) -> None:
    """Raise ``Conflict`` if a person has paused or cancelled the run. A run held for its version is not paused."""
    if phase is Phase.CANCELLED:
        raise Conflict("the run was cancelled: restore one of its checkpoints, or fork it", run=run, by=acted_by)
    if phase is Phase.PAUSED and acted_by:
        raise Conflict(f"the run was paused by {acted_by}: resume it first", run=run, by=acted_by)


def refuse_moved(run: RunId, head: str | None, expected: CheckpointId | None) -> None:
    """Raise ``Conflict`` if the run's newest checkpoint is not the one a caller continues from."""
    if head == expected:
        return
    if expected is None:
        raise Conflict("the run has already started: continue it, or start under a fresh run id", run=run, head=head)
    raise Conflict("the run has changed since: load its newest checkpoint and decide again", run=run, head=head)


def is_first_answer(run: RunId, given: Answer, known: Answer | None) -> bool:
    """Return whether an answer is the request's first one. ``AlreadyAnswered`` if it has another one."""
    if known is None:
        return True
    if dumps(given.value) == dumps(known.value):
        return False
    raise already_answered(known, run)


def already_answered(known: Answer, run: RunId | None = None) -> AlreadyAnswered:
    """Return the error that says who answered a request before, when and what."""
    who = f" by {known.by}" if known.by else ""
    when = f" at {known.at.isoformat(timespec='seconds')}" if known.at else ""
    text = f"request {known.key} was answered{who}{when}: {shortened(known.value)}"
    facts = {"key": known.key, "by": known.by, "at": known.at, "value": known.value}
    return AlreadyAnswered(text, run=run, **facts)


def refuse_decided(run: RunId, key: RequestKey, *, decided: bool) -> None:
    """Raise ``Conflict`` for a request whose reply can still be undone, and takes effect after that."""
    if decided:
        text = f"request {key} has been decided and its answer takes effect shortly: wait for it"
        raise Conflict(text, run=run, key=key)


def refuse_unfit(run: RunId, given: Answer, schema: Mapping[str, Json]) -> None:
    """Raise ``InvalidValue`` for an answer that does not fit its request's JSON Schema: the run could not take it."""
    dumps(given.value)
    if words := oversize(given.value):
        raise InvalidValue(f"answer to {given.key}: {words}", run=run, key=given.key)
    if not schema:
        return
    # Imported here: it takes longer than the rest of a storage, which may accept no answer at all.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    check = validator_for(schema, default=Draft202012Validator)(schema, registry=EMPTY_REGISTRY)
    try:
        found = best_match(check.iter_errors(given.value))
    except Exception as error:
        raise InvalidValue(f"answer to {given.key}: its schema is invalid: {error}", run=run, key=given.key) from error
    if found is not None:
        where = f" at {found.json_path}" if found.path else ""
        raise InvalidValue(f"answer to {given.key}{where}: {found.message[:200]}", run=run, key=given.key)


def shortened(value: Json, limit: int = 200) -> str:
    """Return a value as JSON text for a message."""
    text = dumps(value).decode()
    return text if len(text) <= limit else text[: limit - 3] + "..."


def card_subject(card: Mapping[str, Json], step: str) -> str:
    """Return the headline of a request: its card's subject, its step's name without one."""
    return str(card.get("subject") or step)


def answer_digest(
    request: str, key: str, value: Json, by: object, at: datetime, acting_for: str = "", others: str = ""
) -> str:
    """Return the hash that binds an answer to its request, who gave it, and when.

    ``by``: as its row refers to them, or the name of a rule; ``others``: as stored.
    """
    person = "" if by is None else str(by).replace("-", "")  # SQLite keeps a UUID without its hyphens.
    moment = at.astimezone(UTC).isoformat(timespec="microseconds")
    return digest(dumps([request, key, value, person, moment, acting_for, others]))


def verdict_of(value: Json) -> str:
    """Return a decision's name in lists: the action of an answer that names one, else ``answered``."""
    action = value.get("action") if isinstance(value, dict) else None
    return action[:40] if isinstance(action, str) and action else "answered"


def refuse_taken(checkpoint: CheckpointInfo, *, id_taken: bool) -> None:
    """Raise ``Conflict``: a checkpoint of this id, or of this run and ``n``, is stored already."""
    facts = {"run": checkpoint.run, "checkpoint": checkpoint.id, "n": checkpoint.n}
    if id_taken:
        raise Conflict("a checkpoint with this id is stored already: every checkpoint needs an id of its own", **facts)
    raise Conflict("the run already has a checkpoint with this n", **facts)


def risk_of(card: Mapping[str, object]) -> int:
    """Return a card's risk as a number that sorts: 0 not said, 1 low, 2 medium, 3 high."""
    return RISKS.get(str(card.get("risk")), 0)


LINKED = frozenset({EventKind.REQUEST_OPENED, EventKind.REQUEST_ANSWERED})
"""Events of a question emitted by engines, which do not know the row of its request."""


def link_requests(events: Iterable[EventDraft], rows: Mapping[RequestKey, RequestId]) -> list[EventDraft]:
    """Return events about a question with the row id of its request (``request``), so that pages can link to it."""
    if not rows:
        return list(events)
    return [linked(event, rows) for event in events]


def linked(event: EventDraft, rows: Mapping[RequestKey, RequestId]) -> EventDraft:
    """Return the event with its request's row id, if it is about one."""
    row = rows.get(event.data.get("key", "")) if event.kind in LINKED else None
    return event if row is None else event.model_copy(update={"data": {**event.data, "request": row}})


PLACE = itemgetter("id", "run", "n", "parent", "workflow", "version", "engine", "step")
"""Takes from a checkpoint's fields what never changes and is text or a number."""


def row_of(info: CheckpointInfo) -> bytes:
    """Return what of a checkpoint's metadata never changes and says where it belongs: its content is bound to that."""
    fields = vars(info)
    # Only where there are any: a checkpoint from before there were facts keeps its digest.
    facts = (fields["facts"],) if fields["facts"] else ()
    return dumps([*PLACE(fields), fields["reason"]._value_, *facts])


def facts_text(facts: Mapping[str, Json]) -> str | None:
    """Return a checkpoint's facts as stored: JSON text, None if there are none."""
    return dumps(facts).decode() if facts else None


def facts_in(stored: str | None) -> JsonObject:
    """Return the facts of a row. ``ValueError`` if they cannot be read."""
    found = {} if stored is None else loads(stored)
    if not isinstance(found, dict):
        raise ValueError("a checkpoint's facts are an object")
    return found


def refuse_unreadable(info: CheckpointInfo) -> None:
    """Raise ``Incompatible`` for a format newer than this code, ``Damaged`` for a damaged one."""
    facts = {"run": info.run, "checkpoint": info.id}
    if info.format > FORMAT:
        text = f"the checkpoint has format {info.format}, this code reads up to {FORMAT}: upgrade wfdash"
        raise Incompatible(text, **facts)
    if info.format < 1:
        raise Damaged(f"the checkpoint has format {info.format}, which none is written in", **facts)
    if not info.clean:
        reason = info.flaw or "it was found damaged before"
        raise Damaged(f"the checkpoint is quarantined ({reason}): choose an older good one", known=True, **facts)


def refuse_needed(run: RunId, needed: Iterable[CheckpointId], doomed: Collection[CheckpointId]) -> None:
    """Raise ``Conflict`` if a checkpoint that the run needs is among those to be removed."""
    for checkpoint in needed:
        if checkpoint in doomed:
            text = f"checkpoint {checkpoint} is what the run would continue from: it cannot be pruned"
            raise Conflict(text, run=run, checkpoint=checkpoint)


def refuse_removal(run: RunId, phase: Phase, *, claimed: bool, force: bool) -> None:
    """Raise ``Conflict`` for a run that a worker has, or that has not ended, unless its caller forces it."""
    if force:
        return
    if claimed:
        raise Conflict("the run is claimed by a worker: stop it first, or delete it with force=True", run=run)
    if phase not in ENDED:
        raise Conflict(f"the run is {phase.value}, not ended: cancel it first, or delete it with force=True", run=run)


MESSAGE_DUE = "follow_up"
"""The fact of a checkpoint that ends one run and begins the next, until that has been given its message."""


def is_message_due(checkpoint: CheckpointInfo) -> bool:
    """Return whether a run continues from this checkpoint by its own message.

    Restoring, forking and editing keep facts, so a run that is taken back to there gets its message again.
    """
    return checkpoint.facts.get(MESSAGE_DUE) is True


def time_or_none(convert: Callable[..., Any], *stored: Any) -> Any:
    """Return a time as ``convert`` does; None for what is none."""
    try:
        return convert(*stored)
    except (AttributeError, TypeError, ValueError):
        return None

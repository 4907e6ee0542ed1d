"""What restoring or forking a checkpoint would do, before anybody does it."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.models import Effect, HumanRequest, Run
from checkpoints.records import CheckpointInfo, Json, Request
from wfdash.access import Viewer
from wfdash.queries.board import StepCounts, fold
from wfdash.queries.lineage import spans_to
from wfdash.queries.requests import AnswerView
from wfdash.queries.states import CheckpointView, checkpoint, find_row

UNFINISHED = ("running", "waiting", "retrying", "sleeping", "failed")


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A request that will be asked again; ``suggestion`` is the answer it had, if any."""

    request: Request
    suggestion: AnswerView | None

    @property
    def subject(self) -> str:
        """The card's headline."""
        return str(self.request.card.get("subject") or self.request.step)


@dataclass(frozen=True, kw_only=True)
class Done:
    """A recorded call made after the chosen checkpoint: it has happened (or may have) and stays so."""

    name: str
    step: str
    state: str
    once: bool
    n: int


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A request that was answered before the chosen checkpoint: the answer stays."""

    subject: str
    answer: AnswerView


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Everything to read before confirming."""

    chosen: CheckpointInfo
    current: bool
    """The chosen one is already the head."""
    problem: str
    reopens: tuple[Reopened, ...]
    closes: tuple[str, ...]
    """Subjects of open requests that will be superseded."""
    continues: tuple[str, ...]
    """Steps that were under way or about to start at that point: they run first."""
    repeats: tuple[str, ...]
    """Steps that finished after it on the present line: they run again if the way is the same."""
    effects: tuple[Done, ...]
    kept: tuple[Kept, ...]
    active: bool
    """Somebody or something is still driving the run; restoring stops it at once."""


def preview(viewer: Viewer, run_id: str, checkpoint_id: str) -> Preview:
    """Return it for operators; ``NotFound``, or ``NotAllowed`` for those who may not operate. Changes nothing."""
    find_row(viewer, run_id, checkpoint_id, right="operate")
    chosen = checkpoint(viewer, run_id, checkpoint_id)
    requests = list(_requests(run_id))
    then, now = fold(spans_to(run_id, checkpoint_id)), fold(spans_to(run_id))
    run = Run.objects.only("n", "phase").get(pk=run_id)
    pending = {request.key for request in chosen.requests}
    return Preview(
        chosen=chosen.info,
        current=run.n == chosen.info.n,
        problem=chosen.problem,
        reopens=tuple(_reopened(request, requests) for request in chosen.requests),
        closes=tuple(_subject(row) for row in requests if _is_open(row) and row.key not in pending),
        continues=_continues(chosen, then),
        repeats=_repeats(then, now),
        effects=_effects(run_id, chosen.info.n),
        kept=_kept(requests, chosen, pending),
        active=run.phase == "ready",
    )


def _requests(run_id: str) -> list[HumanRequest]:
    rows = HumanRequest.objects.filter(run_id=run_id).select_related("answer", "answer__by")
    return list(rows.order_by("-created", "-id"))


def _subject(row: HumanRequest) -> str:
    return str(row.card.get("subject") or row.step)


def _is_open(row: HumanRequest) -> bool:
    return row.closed is None and row.answered is None


def _answer(row: HumanRequest) -> AnswerView | None:
    answer = getattr(row, "answer", None)
    if answer is None:
        return None
    by = answer.by.get_username() if answer.by else "a deadline"
    return AnswerView(by=by, at=answer.at, verdict=answer.verdict, value=answer.value)


def _reopened(request: Request, rows: list[HumanRequest]) -> Reopened:
    """Pair a question with its last answer; rows come newest first."""
    answers = (_answer(row) for row in rows if row.key == request.key)
    return Reopened(request=request, suggestion=next((answer for answer in answers if answer), None))


def _kept(rows: list[HumanRequest], chosen: CheckpointView, pending: set[Json]) -> tuple[Kept, ...]:
    kept = []
    for row in rows:
        answer = _answer(row)
        if answer and row.key not in pending and answer.at <= chosen.info.created:
            kept.append(Kept(subject=_subject(row), answer=answer))
    return tuple(kept)


def _effects(run_id: str, n: int) -> tuple[Done, ...]:
    rows = Effect.objects.filter(run_id=run_id, n__gt=n).exclude(state="failed").order_by("n", "id")
    return tuple(Done(name=row.name, step=row.step, state=row.state, once=row.once, n=row.n) for row in rows)


def _continues(chosen: CheckpointView, then: dict[str, StepCounts]) -> tuple[str, ...]:
    under_way = [step for step, counts in then.items() if any(getattr(counts, state) for state in UNFINISHED)]
    asked = [request.step for request in chosen.requests]
    return tuple(dict.fromkeys([*asked, *under_way]))


def _repeats(then: dict[str, StepCounts], now: dict[str, StepCounts]) -> tuple[str, ...]:
    none = StepCounts()
    return tuple(step for step, counts in now.items() if counts.done > then.get(step, none).done)

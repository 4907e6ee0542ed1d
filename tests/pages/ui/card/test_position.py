"""Where the run stood, on one line: what it did, and what certainly comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.driving import drive, pending, put
from tests.people import viewer
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.engines import catalog
from wfdash.examples.expense_batch import expense_batch
from wfdash.examples.publish_article import publish_article
from wfdash.queries.requests.request import read_request
from wfdash.queries.step_states import StepTransition, step_transitions
from wfdash.web.pages.requests.panel import panel
from wfdash.web.pages.ui.card import path_through
from wfdash.workflow import Approval, Context, Workflow, all_of
from wfdash.workflow.describe import describe

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MARKS = {"done": "{}", "here": "*{}*", "ahead": "({})", "more": "..{}"}


def graph(steps: str, *edges: str) -> Description:
    """Return a graph of steps named by letters; ``ab?`` is an arrow with a condition."""
    return Description(
        workflow="w",
        title="W",
        engine="native",
        version="1",
        steps=tuple(StepInfo(name=name) for name in steps),
        edges=tuple(EdgeInfo(source=e[0], target=e[1], kind="when" if e[2:] else "plain") for e in edges),
    )


def moved(done: str) -> list[StepTransition]:
    """Return what a run did that finished these steps one after the other; ``-b`` was skipped."""
    found: list[StepTransition] = []
    for number, name in enumerate(done.replace("-", "")):
        at = BEGIN + timedelta(seconds=number)
        found.append(StepTransition(name, str(number), "running", at))
        found.append(StepTransition(name, str(number), "done", at, skipped=f"-{name}" in done))
    return found


def told(description: Description, step: str, done: str = "") -> str:
    moves = [*moved(done), StepTransition(step, "here", "running", BEGIN + timedelta(minutes=1))]
    stops = path_through(description, step, moves, BEGIN + timedelta(minutes=1))
    return " ".join(MARKS[stop.state].format(stop.title) for stop in stops)


def test_a_branch_that_was_not_taken_is_not_on_the_way() -> None:
    parted = graph("abcd", "ab?", "ac?", "bd", "cd")
    assert told(parted, "d", "ac") == "A C *D*"
    assert told(parted, "d", "ab") == "A B *D*"


def test_a_step_that_was_skipped_did_nothing() -> None:
    assert told(graph("abc", "ab", "bc"), "c", "a-b") == "*C*"


def test_what_finished_elsewhere_did_not_lead_here() -> None:
    assert told(graph("abcd", "ab", "ac", "bd"), "d", "acb") == "A B *D*"


def test_what_came_after_the_question_is_not_on_its_way() -> None:
    description, moves = graph("abc", "ab", "bc"), moved("abc")
    stops = path_through(description, "b", moves, BEGIN + timedelta(seconds=1))
    assert [(stop.title, stop.state) for stop in stops] == [("A", "done"), ("B", "here"), ("C", "ahead")]


def test_a_round_of_a_loop_is_on_the_way_in_the_order_in_which_it_went() -> None:
    assert told(graph("abcd", "ab", "bc?", "cb", "bd?"), "b", "abc") == "A C *B*"


def test_ahead_is_only_what_follows_whatever_is_decided() -> None:
    assert told(graph("abc", "ab", "bc"), "a") == "*A* (B) (C)"
    assert told(graph("abcd", "ab", "bc?", "bd?"), "a") == "*A* (B)"
    assert told(graph("abc", "ab", "ba"), "a") == "*A* (B)"


def test_another_type_may_turn_off() -> None:
    steps = (
        StepInfo(name="a", gives="Claim or Verdict"),
        StepInfo(name="b", takes="Claim"),
        StepInfo(name="c", takes="Verdict"),
    )
    assert told(graph("abc", "ab", "ac").model_copy(update={"steps": steps}), "a") == "*A*"


def test_long_ways_are_cut_on_both_sides() -> None:
    chain = [a + b for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)]
    assert told(graph("abcdefghijkl", *chain), "f", "abcde") == "..2 more C D E *F* (G) (H) (I) ..3 more"


def test_a_step_that_is_not_there_has_no_way() -> None:
    assert path_through(graph("ab", "ab"), "z") == ()
    assert told(graph("a"), "a") == "*A*"


def test_of_the_examples_only_what_is_certain_is_ahead() -> None:
    assert told(describe(expense_batch), "decide") == "*Decide* (Pay)"
    assert told(describe(publish_article), "review") == "*Review*"


@pytest.mark.django_db(transaction=True)
def test_the_card_of_a_run_that_skipped_legal_does_not_say_that_legal_agreed(everybody: object) -> None:
    wf = Workflow("strip")

    @wf.step(start=True)
    async def check(n: int) -> int:
        return n

    @wf.step(after=check, when=lambda n: n > 5)
    async def legal(n: int, ctx: Context) -> int:
        await ctx.ask(Approval(subject="legal?"))
        return n

    @wf.step(after=check, otherwise=True)
    async def fine(n: int) -> int:
        return n

    @wf.step(after=[legal, fine])
    async def approve(n: int, ctx: Context) -> int:
        await ctx.ask(Approval(subject=f"approve {n}?"))
        return n

    @wf.step(after=approve)
    async def create(n: int) -> int:
        return n

    put(catalog.load(), wf)
    run = start_run(viewer("otto"), "strip", 3)
    assert drive(run) == "waiting"
    (request,) = pending(run).values()
    card = panel(read_request(viewer("otto"), request.id), {})["card"]
    assert [(stop.title, stop.state) for stop in card.path] == [
        ("Check", "done"),
        ("Fine", "done"),
        ("Approve", "here"),
        ("Create", "ahead"),
    ]


@pytest.mark.django_db(transaction=True)
def test_a_join_whose_condition_did_not_hold_is_not_ticked(everybody: object) -> None:
    wf = Workflow("joined")

    @wf.step(start=True)
    async def one(n: int) -> int:
        return n

    @wf.step(after=all_of(one), when=lambda given: given[0] > 5)
    async def many(given: list[int]) -> int:
        return len(given)

    @wf.step(after=one)
    async def ask(n: int, ctx: Context) -> int:
        await ctx.ask("?")
        return n

    put(catalog.load(), wf)
    run = start_run(viewer("otto"), "joined", 3)
    drive(run)
    assert {move.step for move in step_transitions(run.id) if move.skipped} == {"many"}

"""A workflow is built once, with every problem named."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from tests.workflow.world import finished, flow
from wfdash.testing import RunFailed, run_step
from wfdash.values.codec import can_carry
from wfdash.workflow import Context, Workflow, all_of, each, gather, n_of
from wfdash.workflow.errors import InvalidWorkflow


def give_int(n: int) -> int:
    return n


def take_text(text: str) -> str:
    return text


def take_all(text: list[str]) -> str:
    return ""


def unknown(wf: Workflow) -> None:
    wf.step(after="nowhere", name="b")(give_int)


def unreachable(wf: Workflow) -> None:
    wf.step(after="c", name="b")(give_int)
    wf.step(after="b", name="c")(give_int)


def wrong_type(wf: Workflow) -> None:
    wf.step(after="a", name="b")(take_text)


def wrong_items(wf: Workflow) -> None:
    wf.step(after="a", name="b")(give_int)
    wf.step(after=all_of("a", "b"), name="c")(take_all)


def no_list(wf: Workflow) -> None:
    wf.step(after=each("a"), name="b")(give_int)


def join_without_list(wf: Workflow) -> None:
    wf.step(after=all_of("a"), name="b")(give_int)


def gather_outside(wf: Workflow) -> None:
    wf.step(after=gather("a"), name="b")(lambda got: got)


def out_of_a_map(wf: Workflow) -> None:
    wf.step(after="a", name="list")(lambda n: [n])
    wf.step(after=each("list"), name="item")(lambda n: n)
    wf.step(after=["a", "item"], name="b")(lambda n: n)


def otherwise_alone(wf: Workflow) -> None:
    wf.step(after="a", otherwise=True, name="b")(give_int)


def both(wf: Workflow) -> None:
    wf.step(after="a", when=bool, otherwise=True, name="b")(give_int)


def when_without_after(wf: Workflow) -> None:
    wf.step(start=True, when=bool, name="b")(give_int)


def too_many(wf: Workflow) -> None:
    wf.step(after=n_of(3, "a", "a"), name="b")(lambda got: got)


def many_parameters(wf: Workflow) -> None:
    wf.step(after="a", name="b")(lambda x, y, z: x)


def foreign(wf: Workflow) -> None:
    other = Workflow("other")
    step = other.step(start=True, name="a")(give_int)
    wf.step(after=step, name="b")(give_int)


def plain_function(wf: Workflow) -> None:
    wf.step(after=give_int, name="b")(give_int)  # type: ignore[arg-type]


def unread_types(wf: Workflow) -> None:
    def b(n: NoSuchType) -> int:  # noqa: F821
        return n

    wf.step(after="a")(b)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (unknown, "'b' comes after 'nowhere', which is no step"),
        (unreachable, "'b' can never be reached from a start step: give it after=..."),
        (wrong_type, "nothing can pass from 'a' to 'b': one returns int, the other takes str"),
        (wrong_items, "nothing can pass from 'a' to 'c'"),
        (no_list, "'b' maps over 'a', which returns int"),
        (join_without_list, "'b' gets a list from its join but takes int"),
        (gather_outside, "'b' gathers 'a', which is in no map"),
        (out_of_a_map, "'b' is reached both inside"),
        (otherwise_alone, "'b' has otherwise=True, but nothing after 'a' has when="),
        (both, "'b' has both when= and otherwise="),
        (when_without_after, "'b' has when= or otherwise= but no after="),
        (too_many, "'b' waits for 3 of 2"),
        (many_parameters, "'b' must take"),
        (foreign, "'a' of another workflow"),
        (plain_function, "'b' comes after give_int, which is no step: decorate it with @bad.step"),
        (unread_types, "'b': its annotations cannot be read"),
    ],
)
def test_the_error_names_the_steps(spoil: Callable[[Workflow], None], words: str):
    wf = Workflow("bad")
    wf.step(start=True, name="a")(give_int)
    spoil(wf)
    with pytest.raises(InvalidWorkflow) as caught:
        _ = wf.graph
    assert words in str(caught.value)


def test_a_workflow_needs_a_start_and_each_name_once():
    wf = Workflow("bad")
    with pytest.raises(InvalidWorkflow, match="no step with start=True"):
        _ = wf.graph
    wf.step(start=True, name="a")(give_int)
    with pytest.raises(InvalidWorkflow, match="two steps named 'a'"):
        wf.step(after="a", name="a")(give_int)
    with pytest.raises(InvalidWorkflow, match="contain"):
        wf.step(after="a", name="a/b")(give_int)


def test_a_workflow_that_contains_itself_is_refused():
    wf = Workflow("self")
    wf.sub("part", wf, start=True)
    with pytest.raises(InvalidWorkflow, match="contains itself"):
        _ = wf.graph


def test_all_problems_are_listed_at_once():
    wf = Workflow("bad")
    wf.step(start=True, name="a")(give_int)
    unknown(wf)
    wf.step(after="a", name="c")(take_text)
    with pytest.raises(InvalidWorkflow) as caught:
        _ = wf.graph
    assert len(caught.value.facts["problems"]) >= 2


def test_the_version_changes_with_the_graph_and_not_with_titles_or_code():
    def version(title: str, function: Callable[..., int], extra: bool = False) -> str:
        wf = Workflow("v", title=title)
        wf.step(start=True, name="a", title=title)(function)
        if extra:
            wf.step(after="a", name="b")(give_int)
        return wf.version

    def other(n: int) -> int:
        return n + 1

    assert version("one", give_int) == version("two", other)
    assert version("one", give_int) != version("one", give_int, extra=True)
    assert version("one", give_int) != version("one", take_text)


@pytest.mark.parametrize("name", ["Bad Name!", "", "a/b", "-a", "a\x00", "a\n"])
def test_a_workflow_name_that_is_no_part_of_an_address_is_refused(name: str):
    with pytest.raises(InvalidWorkflow, match="workflow name"):
        Workflow(name)


@pytest.mark.parametrize("name", ["expense_claim", "v2.orders", "größe", "a-b"])
def test_letters_digits_and_a_few_signs_name_a_workflow(name: str):
    assert Workflow(name).name == name


def test_a_decorator_without_parentheses_says_how_to_write_it() -> None:
    wf = Workflow("bare")
    with pytest.raises(
        InvalidWorkflow, match=r"decorator of 'first' lacks its parentheses: write \.step\(start=True\)"
    ):

        @wf.step
        def first(n: int) -> int:
            return n


def test_a_slip_in_a_name_is_told_with_the_step_that_was_meant() -> None:
    wf = Workflow("slip")

    @wf.step(start=True)
    def one(n: int) -> int:
        return n

    @wf.step(after="onee")
    def two(n: int) -> int:
        return n

    with pytest.raises(InvalidWorkflow, match="did you mean 'one'"):
        _ = wf.graph


class Connection:
    """Lives in this process only."""


@dataclass
class Order:
    number: int
    connection: Connection


def test_all_steps_with_such_a_type_are_named_at_once() -> None:
    async def open_it(n: int) -> Connection:
        return Connection()

    async def use(connection: Connection) -> list[Order]:
        return []

    with pytest.raises(InvalidWorkflow) as refused:
        _ = flow(open_it, use).graph
    remedy = "which cannot be stored: use JSON types, a dataclass or a pydantic model"
    assert refused.value.facts["problems"] == [
        f"step 'open_it' returns Connection, {remedy}",
        f"step 'use' takes Connection, {remedy}",
        f"step 'use' returns Connection (in list), {remedy}",
    ]


class Amount(TypedDict):
    euros: int


class Other(TypedDict):
    name: str


class Plain(typing.TypedDict):
    euros: int


async def test_a_typed_dict_passes_between_steps() -> None:
    async def make(n: int) -> Amount:
        return {"euros": n}

    async def keep(amount: Amount | None) -> dict[str, Any]:
        return dict(amount or {})

    async def end(amount: Amount) -> int:
        return amount["euros"]

    assert finished(await flow(make, keep, end).run(5)) == 5


@pytest.mark.parametrize(
    ("gives", "takes", "fits"),
    [(Amount, Other, True), (dict, Amount, True), (Amount, int, False), (list[Amount], Amount, False)],
)
def test_a_typed_dict_is_a_dict_to_the_graph(gives: Any, takes: Any, fits: bool) -> None:
    assert can_carry(gives, takes) is fits


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="what pydantic refuses before Python 3.12")
def test_a_typed_dict_that_pydantic_refuses_is_told_before_a_run() -> None:
    def make(n: int) -> Plain:
        return {"euros": n}

    with pytest.raises(
        InvalidWorkflow, match=r"returns Plain \(on Python 3.11 take TypedDict from typing_extensions\)"
    ):
        _ = flow(make).graph


class Shape(Protocol):
    """Cannot be compared to a type."""


def test_a_protocol_is_refused_as_a_type_that_cannot_be_stored() -> None:
    async def make(n: int) -> Shape:
        raise AssertionError

    async def use(shape: Shape) -> None:
        raise AssertionError

    with pytest.raises(InvalidWorkflow, match="step 'make' returns Shape, which cannot be stored"):
        _ = flow(make, use).graph


async def test_an_answer_of_such_a_type_fails_the_step_that_asks() -> None:
    wf = Workflow("flow")

    @wf.step(start=True)
    async def ask(n: int, ctx: Context) -> Any:
        return await ctx.ask("Which one?", answer=Connection)

    with pytest.raises(RunFailed, match=r"step 'ask': InvalidCall: .*Connection cannot be stored"):
        await run_step(ask, 1)

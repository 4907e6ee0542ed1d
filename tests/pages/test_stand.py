"""Where the run stands, on one line."""

from __future__ import annotations

from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.examples.expense_batch import expense_batch
from wfdash.examples.publish_article import publish_article
from wfdash.pages.card import stand
from wfdash.workflow.describe import describe


def graph(steps: str, *edges: str) -> Description:
    return Description(
        workflow="w",
        title="W",
        engine="native",
        version="1",
        steps=tuple(StepInfo(name=name) for name in steps),
        edges=tuple(EdgeInfo(source=edge[0], target=edge[1]) for edge in edges),
    )


def told(description: Description, step: str) -> str:
    marks = {"done": "{}", "here": "*{}*", "ahead": "({})", "more": "..{}"}
    return " ".join(marks[stop.state].format(stop.title) for stop in stand(description, step))


def test_the_way_is_the_longest_one_that_passes_the_step() -> None:
    assert told(graph("abcd", "ab", "bc", "ac", "cd"), "c") == "A B *C* (D)"


def test_loops_do_not_lead_back() -> None:
    assert told(graph("abc", "ab", "bc", "ca", "ba"), "b") == "A *B* (C)"


def test_long_ways_are_cut_on_both_sides() -> None:
    chain = [a + b for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)]
    assert told(graph("abcdefghijkl", *chain), "f") == "..2 more C D E *F* (G) (H) (I) ..3 more"


def test_a_step_that_is_not_there_has_no_way() -> None:
    assert stand(graph("ab", "ab"), "z") == ()
    assert told(graph("a"), "a") == "*A*"


def test_the_examples_are_told_right() -> None:
    assert told(describe(expense_batch), "decide") == "Read *Decide* (Pay)"
    assert told(describe(publish_article), "review") == "*Review* (Cool down) (Publish)"

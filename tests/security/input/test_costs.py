"""Whatever a program sends costs the server at most half a second of processor time: each door with the worst it takes.

Checks of schemas by themselves are in ``tests/schemas/test_work.py``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.memory import MemoryStorage
from checkpoints.models import HumanRequest, Run
from tests import people
from tests.driving import put
from tests.schemas.test_work import MOST_SECONDS, bomb, branching, cpu_of, nested
from wfdash.access.viewer import viewer_for
from wfdash.actions.hooks.incoming import IncomingPlan, create_incoming
from wfdash.contract import InvalidInput
from wfdash.engines import catalog
from wfdash.questions.cards import prepare
from wfdash.web.pages.ui.markup import TextCache
from wfdash.workflow import Approval, Waiting
from wfdash.workflow.asking.workflows import ask_people

pytestmark = pytest.mark.django_db
WIDE = {f"k{number}": f"value {number}" for number in range(40_000)}
ROWS = [{"a": number, "b": "x" * 20, "c": None} for number in range(11_000)]
LONG_LINES = ("a b c, " * 60_000, "a b d, " * 60_000)
LINES = ("".join(f"line {n}\n" for n in range(20_000)), "".join(f"line {n * 2}\n" for n in range(20_000)))

PAIRS = "--- a/x.py\n+++ b/x.py\n@@ -1,999 +1,999 @@\n"
PIECES: dict[str, list[dict[str, Any]]] = {
    "a wide object": [{"kind": "json", "value": WIDE}],
    "a deep value": [{"kind": "json", "value": nested(26)}],
    "a table": [{"kind": "table", "value": ROWS}],
    "a wide table": [{"kind": "table", "value": [{**dict.fromkeys(map(str, range(5_000)), 1)} for _ in range(9)]}],
    "a difference of long lines": [{"kind": "diff", "value": {"before": LONG_LINES[0], "after": LONG_LINES[1]}}],
    "a difference of many lines": [{"kind": "diff", "value": {"before": LINES[0], "after": LINES[1]}}],
    "a difference of objects": [{"kind": "diff", "value": {"before": WIDE, "after": {}}}],
    "a long patch": [{"kind": "diff", "value": "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n" + "-a\n+b\n" * 200_000}],
    "a patch of equal words": [
        {"kind": "diff", "value": PAIRS + ("-" + "a b " * 99 + "\n+" + "c b " * 99 + "\n") * 999}
    ],
    "a difference of equal lines": [{"kind": "diff", "value": {"before": "a\nb\n" * 480, "after": "a\nc\n" * 480}}],
    "Markdown": [{"kind": "markdown", "value": "[[](" * 12_500}],
    "much Markdown": [{"kind": "markdown", "value": f"{n} *a* " + "|a|\n|-|\n" + "x\n" * 5_000} for n in range(10)],
    "code": [{"kind": "code", "language": "java", "value": "\n" * 1_900_000}],
    "a long text": [{"kind": "text", "value": "x" * 7_000_000}],
    "a hundred pieces": [{"kind": "text", "title": f"t{n}", "value": "x" * 1_000} for n in range(100)],
}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1,400 +1,400 @@\n" + "-x = 1 + f(a)\n+x = 2 + f(b)\n" * 200
HALF, SAID = LINES[0][:9_000], {"role": "assistant"}
HUNDRED: dict[str, Callable[[int], dict[str, Any]]] = {
    "tables in Markdown": lambda n: {"kind": "markdown", "value": f"{n}\n\n|a|b|\n|-|-|\n" + "x|y\n" * 2_400},
    "brackets in Markdown": lambda n: {"kind": "markdown", "value": f"{n} " + "[[](" * 2_500},
    "pieces of Markdown": lambda n: {"kind": "markdown", "value": f"{n} *a*\n" * 2_000},
    "pieces of code": lambda n: {"kind": "code", "language": "python", "value": f"{n}\n" + "x = {'a': [1]}\n" * 250},
    "values": lambda n: {"kind": "json", "value": {f"k{k}": k + n for k in range(450)}},
    "tables": lambda n: {"kind": "table", "value": [{"a": k, "b": "x" * 20, "c": n} for k in range(120)]},
    "differences of texts": lambda n: {"kind": "diff", "value": {"before": HALF, "after": LINES[1][n:9_000]}},
    "differences of values": lambda n: {"kind": "diff", "value": {"before": ROWS[:60], "after": ROWS[n : n + 60]}},
    "patches": lambda n: {"kind": "diff", "value": f"{PATCH}+{n}\n"},
    "conversations": lambda n: {"kind": "transcript", "messages": [{**SAID, "text": f"{n} *a* b\n" * 40}] * 60},
    "texts": lambda n: {"kind": "text", "value": f"{n} x y\n" * 5_000},
    "images": lambda n: {"kind": "image", "data": DOT, "alt": f"{n}"},
}
SHORT = {
    "tables in Markdown",
    "patches",
    "a text of equal lines",
    "many texts",
    "shifted rows",
    "values of other kinds",
}


def weigh(client: Client, *paths: str) -> None:
    for path in paths:
        assert client.get(path).status_code == 200
        assert cpu_of(lambda path=path: client.get(path)) < MOST_SECONDS, path


@pytest.fixture(autouse=True)
def _asks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = catalog.Catalog()
    put(found, ask_people)
    monkeypatch.setattr(catalog, "load", lambda: found)


@pytest.fixture
def run(everybody: dict[str, Any]) -> Run:
    return people.make_run()


def ask(run: Run, pieces: list[dict[str, Any]], **more: Any) -> HumanRequest:
    asking = prepare(Approval(subject="x", evidence=pieces, **more), None)
    return people.ask(run, card=asking.card, answer_schema=asking.schema)


def long_where(names: Iterable[str], is_long: Callable[[str], bool]) -> list[Any]:
    """Return the names as parameters: those of which a shorter test has the kind of input are marked."""
    return [pytest.param(name, marks=[pytest.mark.nightly] * is_long(name)) for name in names]


@pytest.fixture
def ana(run: Run, as_: Any) -> Client:
    """Return the client of someone to whom the server has shown a request, though not the one that is weighed."""
    client: Client = as_("ana")
    other = ask(run, [{"kind": "text", "value": "x"}])
    assert client.get(f"/requests/{other.pk}/").status_code == 200
    return client


@pytest.fixture
def _first_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was rendered once is remembered."""
    monkeypatch.setattr(TextCache, "get", lambda _cache, _way, _source, render: render())


@pytest.mark.parametrize("name", [*PIECES, *long_where(HUNDRED, lambda name: name not in SHORT)])
@pytest.mark.usefixtures("_first_views")
def test_evidence_costs_little_on_the_first_pages_that_show_it(run: Run, ana: Client, name: str) -> None:
    asked = ask(run, PIECES.get(name) or [HUNDRED[name](number) for number in range(100)])
    address = f"/requests/{asked.pk}/"
    weigh(ana, address, f"{address}?piece=99", f"/?request={asked.pk}")


def test_evidence_that_is_too_much_for_a_page_is_text_with_a_link_that_draws_it(run: Run, ana: Client) -> None:
    asked = ask(run, [HUNDRED["tables in Markdown"](number) for number in range(100)], body="Words about *all* of it")
    page = ana.get(f"/requests/{asked.pk}/").content.decode()
    assert "<em>all</em>" in page
    assert 1 <= page.count("<table>") < 10
    assert f'href="/requests/{asked.pk}/?piece=99#evidence-99"' in page
    assert page.count("Shown as text, because this card has much evidence") == 100 - page.count("<table>")
    assert "Show it formatted<span" in page
    for number in (99, 100, 10**9):
        last = ana.get(f"/requests/{asked.pk}/?tab=all&piece={number}").content.decode()
        assert 'id="evidence-99"' in last
        assert "piece=99#evidence-99" not in last
        assert f'href="/requests/{asked.pk}/?tab=all&amp;piece=98#evidence-98"' in last
    for wrong in ("x", "-1", "%00", "9" * 99):
        assert "piece=99#evidence-99" in ana.get(f"/requests/{asked.pk}/?piece={wrong}").content.decode()


def test_two_patches_of_four_hundred_lines_are_both_drawn(run: Run, ana: Client) -> None:
    asked = ask(run, [HUNDRED["patches"](number) for number in range(2)])
    assert "Shown as text" not in ana.get(f"/requests/{asked.pk}/").content.decode()


def test_lists_and_tables_cost_little_while_ten_huge_cards_are_open(run: Run, as_: Any) -> None:
    for number in range(10):
        asked = ask(run, [{"kind": "json", "value": {**WIDE, "k0": number}}], proposal={"amount": number})
    ana = as_("ana")
    weigh(ana, "/", "/runs/", "/?tab=all", f"/requests/{asked.pk}/similar/", "/api/v1/requests")


STATES: dict[str, Callable[[int], dict[str, Any]]] = {
    "a text of equal lines": lambda n: {"t": "xyz ab\n" * 1_000_000 + str(n)},
    "a text of other lines": lambda n: {"t": f"xyz a{n}\n" * 1_000_000},
    "many texts": lambda n: {f"k{k}": f"{k}{n}" + "word one\n" * 550 for k in range(300)},
    "texts of equal words": lambda n: {f"k{k}": ("a b " * 99 + "cd"[n] + "\n") * 60 for k in range(150)},
    "lists of equal items": lambda n: {f"k{k}": ["a", "bc"[n]] * 150 for k in range(150)},
    "values of other kinds": lambda n: {f"k{k}": ROWS[:250] if n else dict.fromkeys([*WIDE][:900]) for k in range(20)},
    "patches": lambda n: {f"k{k}": f"{PATCH}+{k}" if n else "" for k in range(150)},
    "shifted rows": lambda n: {"r": [[k] for k in range(n, n + 25_000)]},
    "a deep number": lambda n: {"r": nested(50), "s": [*range(100_000), n]},
    "changed keys": lambda n: dict.fromkeys(WIDE, n),
}


@pytest.mark.parametrize("name", long_where(STATES, lambda name: name not in SHORT))
def test_a_checkpoint_and_what_differs_from_its_parent_cost_little(run: Run, as_: Any, name: str) -> None:
    otto: Client = as_("otto")
    first, then = people.save(run, body={"state": STATES[name](0)}), people.save(run, body={"state": STATES[name](1)})
    page, raw = f"/runs/{run.pk}/compare/?a=1&b=2", f"/runs/{run.pk}/compare/?a=1&b=2&raw=shown"
    for path in (
        f"/runs/{run.pk}/checkpoints/{then.pk}/?against={first.pk}",
        page,
        raw,
        f"/api/v1{page}".replace("/?", "?"),
    ):
        assert otto.get(path).status_code == 200
        assert cpu_of(lambda path=path: otto.get(path)) < MOST_SECONDS, path


def late(value: Any) -> dict[str, Any]:
    return {"due": "1h", "policy": {"on_timeout": value}}


def referring(word: str, value: Any) -> dict[str, Any]:
    """Return a schema of many fields that are all as one part of it says."""
    fields = {f"k{number}": {"$ref": "#/$defs/x"} for number in range(300)}
    return {"$defs": {"x": {"type": "string", word: value}}, "type": "object", "properties": fields}


LONG, ROW = "x" * 300_000, {"type": "array", "items": {"properties": {"a": {"type": "integer"}}}}
QUESTIONS: dict[str, dict[str, Any]] = {
    **{f"evidence: {name}": {"evidence": pieces} for name, pieces in PIECES.items()},
    "as many values as it may have": {"evidence": [{"kind": "json", "value": dict([*WIDE.items()][:9_900])}]},
    "as many rows as it may have": {"evidence": [{"kind": "table", "value": ROWS[:2_400]}]},
    "a schema that grows": {"kind": "form", "answer": bomb(40, "allOf")},
    "a schema that grows with a default": {"kind": "form", "answer": bomb(40, "anyOf"), **late({"x": "a"})},
    "a schema that grows inside": {"kind": "form", "answer": bomb(30, "anyOf", below=True), **late(nested(25))},
    "a large schema": {"kind": "form", "answer": {"properties": {f"k{n}": {"type": "string"} for n in range(19_000)}}},
    "a schema of patterns": {"kind": "form", "answer": {"anyOf": [{"pattern": f"a{{{n}}}b"} for n in range(500, 600)]}},
    "many options": {"kind": "choice", "options": [f"o{n}" for n in range(15_000)]},
    "many labels": {"labels": {f"k{n}": "x" for n in range(40_000)}},
    "many people": {"by": [f"p{n}" for n in range(40_000)]},
    "a wide context": {"context": WIDE},
    "an edited proposal": {"proposal": WIDE, "edit": {"type": "object"}},
    "a difference of proposals": {"proposal": WIDE, "current": {**WIDE, "k1": 2}},
    "a million values": {"proposal": [[]] * 1_000_000},
    **{f"{n} fields that refer back": {"kind": "form", "answer": branching(n)} for n in (2, 10)},
    "lists of lists": {"kind": "form", "answer": {"type": "array", "minItems": 5, "items": {"$ref": "#"}}},
    **{f"long {word}": {"kind": "form", "answer": referring(word, LONG)} for word in ("default", "title", "const")},
    "long choices": {"kind": "form", "answer": referring("enum", [LONG, "b"])},
    "many choices": {"kind": "form", "answer": referring("enum", [f"o{n}" for n in range(3_000)])},
    "many rows to edit": {"proposal": {"a": ROWS[:2_400]}, "edit": {"properties": {"a": ROW}}},
    "many actions": {"kind": "choice", "options": [f"o{n}" for n in range(2_000)]},
    "long texts": {"proposal": {"a": LINES[0] * 16}, "current": {"a": LINES[1] * 16}},
    "all of it": {
        "evidence": PIECES["a patch of equal words"],
        "edit": referring("description", LONG),
        **{name: {f"k{n}": f"a {name[0]} c {n}\n" * 200 for n in range(140)} for name in ("proposal", "current")},
    },
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_of_a_program_costs_little_whatever_it_says(as_: Any, name: str) -> None:
    otto: Client = as_("otto")
    body = json.dumps({"workflow": "ask_people", "message": {"subject": "x", **QUESTIONS[name]}})
    answers: list[int] = []

    def send() -> None:
        answers.append(otto.post("/api/v1/runs", body, content_type="application/json").status_code)

    assert cpu_of(send) < MOST_SECONDS
    assert set(answers) <= {201, 400, 413, 422}


@pytest.mark.parametrize("name", [name for name in QUESTIONS if not name.startswith("evidence: ")])
@pytest.mark.usefixtures("_first_views")
def test_the_pages_of_a_question_cost_little_whatever_it_says(run: Run, ana: Client, name: str) -> None:
    try:
        outcome = asyncio.run(ask_people.run({"subject": "x", **QUESTIONS[name]}, storage=MemoryStorage()))
    except InvalidInput:
        return
    if not isinstance(outcome, Waiting):
        return
    (asked,) = outcome.requests
    address = f"/requests/{people.ask(run, card=asked.card, answer_schema=asked.answer_schema).pk}/"
    weigh(ana, address, f"/?request={address[10:-1]}", f"{address}similar/")
    typed = {"_action": "edit", "_mode": "edit:fields", "value!": "1000", "value.0!": "1000"}
    assert cpu_of(lambda: ana.post(address, typed)) < MOST_SECONDS
    assert ana.post(address, typed).status_code in {200, 422}


@pytest.mark.parametrize("name", long_where(QUESTIONS, lambda name: name.startswith("evidence: ")))
def test_a_delivery_to_an_incoming_webhook_costs_little_whatever_it_says(as_: Any, name: str) -> None:
    as_("otto")
    otto = viewer_for(User.objects.get(username="otto"))
    plan = IncomingPlan(name="x", workflow="ask_people", mapping={"$": ""}, scheme="token", key_at="/subject")
    hook, _ = create_incoming(otto, plan, secret="a-secret-of-the-sender")
    answers: list[int] = []

    def send() -> None:
        body = json.dumps({"subject": f"x{len(answers)}", **QUESTIONS[name]})
        headers = {"X-Webhook-Token": "a-secret-of-the-sender"}
        sent = Client().post(f"/hooks/{hook.pk}", body, content_type="application/json", headers=headers)
        answers.append(sent.status_code)

    assert cpu_of(send) < MOST_SECONDS
    assert set(answers) <= {202, 400, 413, 422}


FILTERS = ["a " * 50_000, "(" * 50_000, "-" * 50_000, "is:open " * 5_000, '"' + "x" * 100_000, "(a or b) " * 5_000]


@pytest.mark.parametrize("path", ["/", "/runs/", "/api/v1/runs", "/api/v1/requests", "/decisions/", "/audit/"])
def test_no_filter_costs_much(run: Run, as_: Any, path: str) -> None:
    adam: Client = as_("adam")
    costs = [cpu_of(lambda text=text: adam.get(path, {"q": text})) for text in FILTERS]
    assert max(costs) < MOST_SECONDS

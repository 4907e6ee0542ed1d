"""What is known of a workflow that does not run: its description, names, and what a step may show."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.domain.test_images import GIF, JPEG, PNG, WEBP
from tests.workflow.world import failed, finished, flow
from wfdash import workflow
from wfdash.domain.images import MAX_BYTES
from wfdash.questions.evidence import Code, Diff, Evidence, File, Image, JsonValue, Link, Markdown, Pdf, Table, Text
from wfdash.workflow import Context, Workflow
from wfdash.workflow.describe import describe
from wfdash.workflow.errors import InvalidWorkflow


class Model:
    """A client with a method of the same name."""

    def ask(self, question: str) -> str:
        return question.upper()


llm = Model()


def think(question: str) -> str:
    return llm.ask(question)


async def think_on(question: str, ctx: Context) -> str:
    return llm.ask(question) + ctx.step


async def ask(question: str, ctx: Context) -> str:
    return str(await ctx.ask(question))


async def ask_late(question: str, run: Context) -> str:
    async def later() -> Any:
        return await run.ask(question)

    return str(await later())


async def by_helper(question: str, ctx: Context) -> str:
    return await ask(question, ctx)


def made_at_run_time() -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec("async def step(question, ctx): return await ctx.ask(question)", names)
    return names["step"]  # type: ignore[no-any-return]


def drawn(function: Callable[..., Any], **options: Any) -> bool:
    wf = Workflow("drawing")
    wf.step(start=True, name="only", **options)(function)
    return describe(wf).steps[0].person


@pytest.mark.parametrize(
    ("function", "person"),
    [
        (ask, True),
        (ask_late, True),
        (think, False),
        (think_on, False),
        (by_helper, False),
        (made_at_run_time(), False),
        (lambda question, ctx: ctx.ask(question), True),
        (Model().ask, False),
    ],
)
def test_a_step_is_drawn_with_a_person_if_it_asks_through_its_context(function: Callable[..., Any], person: bool):
    assert drawn(function) is person


def test_a_step_that_asks_through_a_helper_says_so():
    assert drawn(by_helper, people=True)


def test_saying_that_a_step_asks_people_is_no_other_version():
    plain, marked = Workflow("drawing"), Workflow("drawing")
    plain.step(start=True)(by_helper)
    marked.step(start=True, people=True)(by_helper)
    assert plain.version == marked.version


async def test_a_plain_function_may_call_something_else_named_ask():
    wf = Workflow("thinking")
    wf.step(start=True)(think)
    assert finished(await wf.run("why")) == "WHY"


async def test_a_plain_function_that_asks_people_fails_with_the_remedy():
    def b(question: str, ctx: Context) -> None:
        ctx.ask(question)

    assert failed(await flow(b).run("why")) == "InvalidCall: step 'b' is a plain function: make it 'async def' to ask"


@pytest.mark.parametrize("limit", [0, -1, True, "3", 1.5])
def test_a_limit_is_a_number_of_runs(limit: Any) -> None:
    with pytest.raises(InvalidWorkflow, match=r"limit .*: give how many"):
        Workflow("any", limit=limit)


def test_queue_and_limit_are_described_and_no_part_of_the_version() -> None:
    plain, placed = (Workflow("any", **facts) for facts in ({}, {"queue": "gpu", "limit": 3}))
    for one in (plain, placed):
        one.step(start=True)(think)
    described = describe(placed)
    assert (described.queue, described.limit, described.version) == ("gpu", 3, describe(plain).version)


@pytest.mark.parametrize("name", ["", "two words", "a,b", "x" * 61, None])
def test_a_queue_has_a_name_that_a_command_line_can_list(name: Any) -> None:
    with pytest.raises(InvalidWorkflow, match=r"queue .*: give up to 60 letters"):
        Workflow("any", queue=name)


DOCS = Path(__file__).parents[2] / "docs" / "library.md"


def test_the_package_has_what_an_author_needs_at_first_sight() -> None:
    assert len(workflow.__all__) == 20
    assert all(hasattr(workflow, name) for name in workflow.__all__)


def test_every_other_name_is_where_the_documentation_says() -> None:
    section = DOCS.read_text().split("## Where names are")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| `([\w.]+)` \|$", section, re.MULTILINE)
    assert len(rows) == 8
    for words, module in rows:
        names = re.findall(r"`([A-Z]\w+)`", words)
        assert names
        assert all(hasattr(import_module(module), name) for name in names), module


ANY: TypeAdapter[Any] = TypeAdapter(Evidence)
PIECES = [
    Text(title="T", value="a"),
    Markdown(value="*a*"),
    Code(value="x = 1", language="python"),
    Table(rows=[{"a": 1}], columns=["a", "b"]),
    JsonValue(value={"a": [1]}),
    Image(data=PNG, alt="A dot"),
    Pdf(data=b"%PDF-1.7"),
    File(name="a.txt", data=b"hi"),
    Link(url="https://a.example/x", title="X"),
    Diff(before={"a": 1}, after=None),
    Diff(unified="@@ -1 +1 @@\n-a\n+b"),
]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.kind)
def test_what_is_shown_can_be_given_again(piece: Any):
    shown = piece.shown()
    assert {"kind", "value"} <= set(shown)
    derived = {"bytes", "media_type"} if piece.kind == "file" else {"bytes"}
    again = ANY.validate_python({name: item for name, item in shown.items() if name not in derived})
    assert again.shown() == shown


@pytest.mark.parametrize("data", [PNG, JPEG, GIF, WEBP])
def test_the_content_tells_an_images_type(data: bytes):
    assert Image(data=data).shown()["media_type"].startswith("image/")
    assert Image(data=base64.b64encode(data).decode()).data == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", "SVG can hold scripts"),
        (b"GIF89a", "no PNG"),
        (b"", "no PNG"),
        ("no base64!", "must be base64"),
        (PNG + bytes(MAX_BYTES), "2.0 MB is more than a card holds"),
    ],
)
def test_what_is_no_image_is_refused(data: Any, words: str):
    with pytest.raises(ValidationError, match=words):
        Image(data=data)


def test_a_false_media_type_is_refused():
    with pytest.raises(ValidationError, match="its content is image/png"):
        Image(data=PNG, media_type="image/gif")


def test_a_file_is_called_what_it_is_and_not_what_its_name_says():
    assert File(name="a.html", data=b"<script>1</script>").shown()["media_type"] == "text/plain; charset=utf-8"
    assert File(name="a.txt", data=b"\x00\x01").shown()["media_type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "/sign-out/", "//a.example", "https://a.example\\@b.example", "https://a b", "data:x"],
)
def test_only_plain_absolute_addresses_are_links(url: str):
    with pytest.raises(ValidationError, match="no absolute"):
        Link(url=url)


@pytest.mark.parametrize("wrong", [{}, {"unified": "x", "before": 1, "after": 2}])
def test_a_diff_has_two_sides_or_is_unified(wrong: dict[str, Any]):
    with pytest.raises(ValidationError, match="before= and after="):
        Diff(**wrong)


def test_a_row_wider_than_the_columns_is_refused():
    with pytest.raises(ValidationError, match="a row has 2 cells"):
        Table(rows=[[1, 2]], columns=["a"])


def test_a_pdf_is_one_by_its_content():
    assert Pdf(data=b"%PDF-1.7").shown()["name"] == "document.pdf"
    for data in (b"<html>%PDF-", b"", b"%PDF-" + b"x" * 2_000_000):
        with pytest.raises(ValidationError):
            Pdf(data=data)


def test_the_earlier_version_of_an_image_is_an_image_too():
    assert "before" not in Image(data=PNG).shown()
    assert Image(data=PNG, before=PNG).shown()["before"] == Image(data=PNG).shown()["value"]
    with pytest.raises(ValidationError):
        Image(data=PNG, before=b"<svg/>")

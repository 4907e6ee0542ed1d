"""The table of event kinds, and that what is emitted, encrypted, shown, counted and documented is what it says."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from checkpoints.errors import InvalidValue
from checkpoints.events import (
    CLEAR,
    CONTENT,
    FIELDS,
    KINDS,
    QUERIED,
    SHOWN,
    TRACES,
    UNENCRYPTED,
    VALUES,
    VISIBLE,
    EventKind,
    Row,
    Trait,
    check_event,
    kinds_with,
    topics_of,
)
from checkpoints.models import Event
from checkpoints.records import EventDraft, Status
from wfdash.actions.statistics import MEASURED
from wfdash.queries.history import plain, traceless
from wfdash.web.pages.ui.event_text import describe, icon_of, tone_of
from wfdash.web.pages.ui.fragments import draw_icon

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/events.md"
SAID = {"step", "past"}
"""What a sentence may hold beside fields."""
READERS = {"queries", "pages", "live", "api", "spans.py"}
"""What of the product only reads events."""


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Attributes, calls and constants of every module but the table's own, with their files. Parsed once."""
    found = [*ROOT.glob("checkpoints/**/*.py"), *ROOT.glob("wfdash/**/*.py")]
    paths = [path for path in found if path.name != "events.py" or path.parent.name != "checkpoints"]
    kinds = (ast.Attribute, ast.Call, ast.Constant)
    return [(path, node) for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def test_an_event_is_made_by_its_kind() -> None:
    made = EventKind.STEP_FINISHED.draft("pay", activation="1", ms=3, output=None)
    assert made == EventDraft(kind="step.finished", step="pay", data={"activation": "1", "ms": 3, "output": None})
    assert check_event(made) is EventKind.STEP_FINISHED


def test_a_field_that_a_kind_does_not_have_is_refused_where_the_event_is_made() -> None:
    with pytest.raises(InvalidValue, match=r"step\.started have no field by, output"):
        EventKind.STEP_STARTED.draft("pay", activation="1", by="ana", output=1)


@pytest.mark.parametrize("draft", [EventDraft(kind="run.exploded"), EventKind.STREAM.draft("pay", text="x")])
def test_what_is_not_in_the_table_or_not_to_be_stored_is_refused(draft: EventDraft) -> None:
    with pytest.raises(InvalidValue, match="no event kind"):
        check_event(draft)


def test_a_kind_with_a_field_of_unknown_privacy_cannot_be_declared() -> None:
    with pytest.raises(InvalidValue, match="how private"):
        Row("run.odd", "Odd", "tag", "queued", "by colour")


def test_every_kind_of_the_table_is_emitted_and_nothing_else_makes_events() -> None:
    emitted: set[str] = set()
    for path, node in nodes():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "EventKind":
            emitted |= set() if READERS & set(path.relative_to(ROOT).parts) else {node.attr}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "EventDraft":
            assert path.parent.name == "conformance", f"{path}: make events by their kind"
    assert emitted >= {kind.name for kind in EventKind}


def test_kinds_are_named_by_the_table_and_not_spelled_out() -> None:
    """A literal would not be found when a kind is renamed, nor fail when it is misspelled."""
    constants = (
        (path.name, node.lineno, node.value)
        for path, node in nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert [one for one in constants if "." in one[2] and one[2] in KINDS] == []


def test_scripts_of_the_pages_know_kinds_of_the_table() -> None:
    scripts = "".join(path.read_text() for path in ROOT.glob("static/js/**/*.js"))
    named = set(re.findall(r'"((?:run|step|request|call|signal)\.[a-z]+)"', scripts))
    assert named
    assert named <= KINDS.keys()


def test_every_field_is_private_in_one_way() -> None:
    groups = (CLEAR, QUERIED, SHOWN, CONTENT, VALUES, TRACES)
    assert sum(len(group) for group in groups) == len(FIELDS)
    assert frozenset().union(*(kind.fields for kind in EventKind)) == FIELDS


def test_what_is_content_is_neither_readable_in_the_database_nor_shown_to_all() -> None:
    content = CONTENT | VALUES | TRACES
    assert not content & (UNENCRYPTED | VISIBLE)
    assert Event._meta.get_field("data").clear == UNENCRYPTED
    assert plain(dict.fromkeys(FIELDS, 1)).keys() == VISIBLE
    assert traceless(dict.fromkeys(FIELDS, 1)).keys() == FIELDS - TRACES


@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_says_a_sentence_of_its_own_fields_with_a_known_icon_and_tone(kind: EventKind) -> None:
    named = {name for _, name, _, _ in Formatter().parse(kind.text) if name}
    assert named <= kind.fields | SAID
    assert kind.tone in set(Status)
    assert describe(kind.value, "pay", {})
    assert (icon_of(kind.value), tone_of(kind.value)) == (kind.icon, f"is-{kind.tone}")
    assert "<svg" in draw_icon(kind.icon, 16)
    assert len(kind.value) <= Event._meta.get_field("kind").max_length


def test_a_kind_that_is_no_longer_in_the_table_is_shown_by_its_name() -> None:
    assert describe("run.archived", "", {"by": "ana"}) == "run.archived"
    assert (icon_of("run.archived"), tone_of("run.archived")) == ("information-circle", "is-queued")
    assert topics_of("run.archived") == ("runs",)


def test_the_inbox_follows_events_of_requests_and_the_runs_follow_all() -> None:
    assert topics_of("request.voted") == ("runs", "inbox")
    assert topics_of("step.started") == ("runs",)


def test_statistics_count_the_kinds_that_the_table_says() -> None:
    assert frozenset(MEASURED) == kinds_with(Trait.MEASURED)


def test_what_people_did_says_who() -> None:
    assert all("by" in KINDS[name].fields for name in kinds_with(Trait.PERSON))


def test_the_site_lists_every_kind_with_its_fields() -> None:
    rows = runpy.run_path(str(ROOT / ".ci/docs_lists.py"))["kinds"]().splitlines()
    assert [row.split("`")[1] for row in rows] == list(KINDS)
    assert all(f"`{field}`" in row for row, kind in zip(rows, EventKind, strict=True) for field in kind.fields)
    assert "<!-- kinds -->" in PAGE.read_text()


def test_the_page_of_events_says_of_every_field_who_reads_it() -> None:
    groups = re.findall(r"^### Shown to (\w+), (\w+)\n((?:\n|- .+\n)+)", PAGE.read_text(), re.MULTILINE)
    readers = {name: "all" if name in VISIBLE else "operate" if name in TRACES else "inspect" for name in FIELDS}
    told = {name: [who, "readable" if name in UNENCRYPTED else "encrypted"] for name, who in readers.items()}
    assert {name: group for *group, rows in groups for name in re.findall(r"`(\w+)`:", rows)} == told

"""What a checkpoint holds of the framework's values: they come back equal, and nothing else comes back."""

from __future__ import annotations

import base64
import functools
import json
import operator
import os
import pickle
import sys
import types
import typing
import zoneinfo
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Content, Message, WorkflowEvent

from checkpoints.content.pickles import FORMS
from checkpoints.errors import Damaged
from checkpoints.records import Json
from tests.engines.agent_framework import samples
from tests.engines.agent_framework.desk import Desk
from wfdash.engines.agent_framework import encoding
from wfdash.engines.agent_framework.allowed_types import codec_of
from wfdash.engines.agent_framework.encoding import PICKLED, NotSigned, PickleCodec, Signing, signing
from wfdash.values.errors import NotStorable

EITHER = FORMS["Union"][samples.Draft, int]
ZURICH = zoneinfo.ZoneInfo("Europe/Zurich")
KEPT: list[Any] = [
    *(None, True, 1, 1.5, "text", [], {}, [1, {"a": None}]),
    *((1, 2), {1, 2}, frozenset({1}), b"bytes", bytearray(b"x"), {1: "a", "1": "b"}, {PICKLED: "no pickle"}),
    *(Decimal("1.10"), UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=ZURICH)),
    *(timedelta(days=1), OrderedDict(a=1), defaultdict(list, a=[1]), float("inf")),
    *(samples.Draft(title="x", amount=1), samples.Colour.RED, samples.Route(city="Ulm", stops=[1])),
    *(samples.Verdict, int | None, list[int], dict[str, list[int]], Literal["a", "b"], type(None)),
    *(EITHER, typing.Annotated[int, "words"], samples.Box[int]),
]


def codec() -> PickleCodec:
    return codec_of(samples.questionnaire())


def signed(written: bytes) -> Json:
    """Return a pickle as if this installation had written it."""
    text = base64.b64encode(written).decode()
    return {PICKLED: f"{signing.keys.sign(text)}:{text}"}


@pytest.mark.parametrize("value", KEPT, ids=repr)
def test_a_value_comes_back_through_json(value: Any):
    again = codec().decode(json.loads(json.dumps(codec().encode(value))))
    assert type(again) is type(value)
    assert again == value


class NamedAsOldPythonsDo:
    """Pickled as Python 3.11.0 to 3.11.3 pickle a member of an enumeration; ``name`` may be any attribute."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name = kind, name

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.kind, self.name)


def test_a_member_of_an_enumeration_comes_back_by_its_name_and_no_other_attribute_does():
    written = signed(pickle.dumps(NamedAsOldPythonsDo(samples.Colour, "RED")))
    assert codec().decode(written) is samples.Colour.RED
    for kind, name in ((samples.Colour, "__class__"), (samples.Draft, "__init__")):
        with pytest.raises(Damaged, match="is no class"):
            codec().decode(signed(pickle.dumps(NamedAsOldPythonsDo(kind, name))))


def test_what_is_no_number_comes_back():
    again = codec().decode(codec().encode(float("nan")))
    assert again != again


def test_messages_and_requests_come_back():
    message = Message(role="user", contents=[Content.from_text("hello")])
    request = WorkflowEvent.request_info("r", "asker", samples.Draft(title="x", amount=1), samples.Verdict)
    again, asked = codec().decode(codec().encode([message, request]))
    assert (again.role, again.text) == ("user", "hello")
    assert (asked.request_id, asked.response_type, asked.data.title) == ("r", samples.Verdict, "x")


class Exploit:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


class Evaluated:
    def __reduce__(self) -> Any:
        return eval, ("1 + 1",)


class OfTheFramework:
    """Calls a function of the framework, which is none of its classes."""

    def __reduce__(self) -> Any:
        from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value

        return decode_checkpoint_value, ({},)


class OfAModule:
    """Reaches a module through a class that is allowed."""

    def __reduce__(self) -> Any:
        return getattr, (samples.Draft, "__init__")


@pytest.mark.parametrize("name", ["asyncio.subprocess.subprocess.Popen", "asyncio.Event", "logging.FileHandler"])
def test_a_pickle_does_not_reach_what_a_module_of_the_framework_has_imported(name: str):
    module = b"agent_framework._tools"
    word = b"".join(b"\x8c" + bytes([len(one)]) + one for one in (module, name.encode()))
    with pytest.raises(Damaged, match=f"agent_framework._tools.{name} is no class of a module that is loaded"):
        codec().decode(signed(b"\x80\x04" + word + b"\x93."))


@pytest.mark.parametrize("kind", [Exploit, Evaluated, OfTheFramework, OfAModule], ids=lambda kind: kind.__name__)
def test_a_pickle_that_calls_anything_is_not_read(kind: type):
    with pytest.raises(Damaged, match="is no class"):
        codec().decode({"state": [signed(pickle.dumps(kind()))]})


@pytest.fixture(params=["signed", "unsigned ones are read"])
def hostile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Any]:
    """Return what reads a pickle that someone else wrote, by the reader of signed ones or by that of others."""
    if request.param == "signed":
        return lambda written: codec().decode(signed(written))
    monkeypatch.setattr(signing, "unsigned", True)
    return lambda written: codec().decode({PICKLED: base64.b64encode(written).decode()})


class Calls:
    """Pickled as a call of anything with anything, with arguments."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call


def makes_a_model(kind: type, ran: Path) -> Calls:
    """Return the class of a model whose annotation is a program: pydantic evaluates it to make the class."""
    program = f"__import__('pathlib').Path({str(ran)!r}).touch()"
    return Calls(type, ("X", (kind,), {"__module__": kind.__module__, "__annotations__": {"x": program}}))


def test_a_pickle_makes_no_class_of_which_an_annotation_is_evaluated(hostile: Any, tmp_path: Path):
    from agent_framework._harness._file_access import _DeleteFileInput

    for base in (_DeleteFileInput, samples.Draft):
        written = pickle.dumps(makes_a_model(base, tmp_path / "ran"))
        with pytest.raises(Damaged):
            hostile(written)
        assert not (tmp_path / "ran").exists()
        with pytest.raises(NotStorable):
            codec().encode(makes_a_model(base, tmp_path / "ran"))
        assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "call",
    [
        (operator.getitem, (FORMS["List"], "__import__('os')")),
        (operator.getitem, (typing.Annotated, ("__import__('os')", 1))),
        (operator.getitem, (samples.Verdict, int)),
        (operator.getitem, ([1], 0)),
        (operator.or_, (EITHER, "__import__('os')")),
        (functools.reduce, (samples.Verdict, (1, 2))),
        (types.GenericAlias, (list, ("__import__('os')",))),
        (type, ("text",)),
    ],
    ids=repr,
)
def test_a_pickle_calls_nothing_by_what_makes_types(call: Any, hostile: Any):
    with pytest.raises(Damaged, match=r"is no (type|class)"):
        hostile(pickle.dumps(Calls(*call)))


def test_a_pickle_imports_no_module(hostile: Any, monkeypatch: pytest.MonkeyPatch):
    name = "agent_framework._harness._file_access"
    __import__(name)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Damaged, match="is no class of a module that is loaded"):
        hostile(b"\x80\x04c" + f"{name}\n_DeleteFileInput\n.".encode())
    assert name not in sys.modules


def test_what_is_not_signed_sets_nothing_on_a_class(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(signing, "unsigned", True)
    for shared in (samples.Draft, samples.Colour.RED, typing.Optional):
        named = pickle.dumps(shared, protocol=2)[:-1]
        written = named + b"N}X\x05\x00\x00\x00titleX\x01\x00\x00\x00xs\x86b."
        with pytest.raises(Damaged, match="keeps its state"):
            codec().decode({PICKLED: base64.b64encode(written).decode()})
    assert "title" not in vars(samples.Draft)


@pytest.mark.parametrize("kind", [type, functools.reduce, operator.or_])
def test_what_pickles_call_is_no_value(kind: Any):
    with pytest.raises(NotStorable, match=r"state.kind: .* is no value"):
        codec().encode({"kind": (kind,)}, "state")


def test_a_value_that_no_key_of_the_installation_signed_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    draft = samples.Draft(title="x", amount=1)
    written = codec().encode(draft)
    text = written[PICKLED].rpartition(":")[2]
    other = {PICKLED: f"{signing.keys.sign('')}:{text}"}
    ours, rotated, theirs = Signing(), Signing(), Signing()
    theirs.use(["b" * 32])
    rotated.use(["b" * 32, "a" * 32])
    ours.use(["a" * 32])
    monkeypatch.setattr(encoding, "signing", ours)
    by_ours = codec().encode(draft)
    for refused, words in (
        ({PICKLED: text}, "is not signed"),
        (written, "is signed with key .*, which is not set"),
        ({PICKLED: f"{ours.keys.sign('')}:{text}"}, "has a signature that does not hold"),
        ({PICKLED: None}, "is not signed"),
    ):
        with pytest.raises(NotSigned, match=f"{words}.*WFDASH_UNSIGNED_PICKLES=1"):
            codec().decode(refused)
    monkeypatch.setattr(encoding, "signing", rotated)
    assert codec().decode(by_ours) == draft
    assert codec().encode(draft) != by_ours
    monkeypatch.setattr(encoding, "signing", theirs)
    with pytest.raises(NotSigned):
        codec().decode(by_ours)
    theirs.use(["b" * 32], unsigned=True)
    assert [codec().decode(one) for one in (by_ours, {PICKLED: text}, other)] == [draft] * 3


def test_a_class_that_no_one_named_is_refused_when_it_is_written():
    with pytest.raises(
        NotStorable, match=r"state\.x: a value cannot be read: .*Exploited is no class that the workflow"
    ):
        PickleCodec().encode({"x": Exploited()}, "state")


class Exploited:
    pass


def test_what_has_not_changed_is_the_same_object():
    one = codec()
    draft = samples.Draft(title="x", amount=1)
    assert one.encode(draft) is one.encode(samples.Draft(title="x", amount=1))
    assert one.encode(draft) is not one.encode(samples.Draft(title="y", amount=1))


def test_a_value_that_cannot_be_pickled_is_named():
    with pytest.raises(NotStorable, match=r"state\.open\[1\]: generator cannot be kept in a checkpoint"):
        codec().encode({"open": [1, (one for one in "x")]}, "state")


def test_a_damaged_pickle_is_damaged():
    with pytest.raises(Damaged):
        codec().decode(signed(b"no pickle"))


async def test_pages_decode_nothing(monkeypatch: pytest.MonkeyPatch):
    desk = Desk(samples.refunds())
    await desk.start("please refund")

    def refused(*_: Any) -> Any:
        raise AssertionError("a page reads no pickle")

    monkeypatch.setattr(PickleCodec, "decode", refused)
    monkeypatch.setattr(pickle, "loads", refused)
    assert [one.role for one in desk.engine.show(desk.head).transcript] == ["user", "assistant", "tool", "assistant"]
    assert desk.engine.check_answer(desk.served, desk.requests[0], {"action": "approve"}) == []

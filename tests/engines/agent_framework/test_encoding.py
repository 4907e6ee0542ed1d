"""What a checkpoint holds of the framework's values: they come back equal, and nothing else comes back."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zoneinfo
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Content, Message, WorkflowEvent

from checkpoints.errors import Damaged
from tests.engines.agent_framework import samples
from tests.engines.agent_framework.desk import Desk
from wfdash.engines.agent_framework.definition.allowed_types import codec_of
from wfdash.engines.agent_framework.stored.encoding import PICKLED, PickleCodec
from wfdash.values.errors import NotStorable

ZURICH = zoneinfo.ZoneInfo("Europe/Zurich")
KEPT: list[Any] = [
    *(None, True, 1, 1.5, "text", [], {}, [1, {"a": None}]),
    *((1, 2), {1, 2}, frozenset({1}), b"bytes", bytearray(b"x"), {1: "a", "1": "b"}, {PICKLED: "no pickle"}),
    *(Decimal("1.10"), UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=ZURICH)),
    *(timedelta(days=1), OrderedDict(a=1), defaultdict(list, a=[1]), float("inf")),
    *(samples.Draft(title="x", amount=1), samples.Colour.RED, samples.Route(city="Ulm", stops=[1])),
    *(samples.Verdict, int | None, list[int], dict[str, list[int]], Literal["a", "b"]),
]


def codec() -> PickleCodec:
    return codec_of(samples.questionnaire())


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
    written = {PICKLED: base64.b64encode(pickle.dumps(NamedAsOldPythonsDo(samples.Colour, "RED"))).decode()}
    assert codec().decode(written) is samples.Colour.RED
    for kind, name in ((samples.Colour, "__class__"), (samples.Draft, "__init__")):
        refused = {PICKLED: base64.b64encode(pickle.dumps(NamedAsOldPythonsDo(kind, name))).decode()}
        with pytest.raises(Damaged, match="is no class"):
            codec().decode(refused)


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
    written = base64.b64encode(b"\x80\x04" + word + b"\x93.").decode()
    with pytest.raises(Damaged, match=f"agent_framework._tools.{name} is no class that the workflow"):
        codec().decode({PICKLED: written})


@pytest.mark.parametrize("kind", [Exploit, Evaluated, OfTheFramework, OfAModule], ids=lambda kind: kind.__name__)
def test_a_pickle_that_calls_anything_is_not_read(kind: type):
    written = base64.b64encode(pickle.dumps(kind())).decode()
    with pytest.raises(Damaged, match="is no class"):
        codec().decode({"state": [{PICKLED: written}]})


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
        codec().decode({PICKLED: base64.b64encode(b"no pickle").decode()})


async def test_pages_decode_nothing(monkeypatch: pytest.MonkeyPatch):
    desk = Desk(samples.refunds())
    await desk.start("please refund")

    def refused(*_: Any) -> Any:
        raise AssertionError("a page reads no pickle")

    monkeypatch.setattr(PickleCodec, "decode", refused)
    monkeypatch.setattr(pickle, "loads", refused)
    assert [one.role for one in desk.engine.show(desk.head).transcript] == ["user", "assistant", "tool", "assistant"]
    assert desk.engine.check_answer(desk.served, desk.requests[0], {"action": "approve"}) == []

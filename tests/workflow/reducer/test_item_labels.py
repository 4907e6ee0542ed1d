"""An item of a map is called what its author says, in all its steps, through versions and restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from checkpoints.records import Checkpoint
from tests.workflow.world import ListRecorder, answered, finished, handed_over
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Waiting, Workflow, all_of, each, gather
from wfdash.workflow.errors import InvalidWorkflow

LABEL = "{employee}: {amount}"
TWO = [{"employee": "Ada", "amount": 5}, {"employee": "Bo", "amount": 7}]


class Claim(BaseModel):
    employee: str | None = None
    amount: float | None = None
    token: SecretStr = SecretStr("hush")


async def ask(claim: Claim, ctx: Context) -> int:
    return int(await ctx.ask("how much?", answer=int))


def claims(label: str = LABEL, *, review: str = "review", **facts: Any) -> Workflow:
    """read -> each claim: check, a step that asks, note -> count."""
    wf = Workflow("claims")
    wf.step(start=True, name="read")(read)
    wf.step(after=each("read", label=label), name="check")(check)
    wf.step(after="check", name=review, **facts)(ask)
    wf.step(after=review, name="note")(note)
    wf.step(after=gather("note"), name="count")(count)
    return wf


async def read(batch: list[Claim]) -> list[Claim]:
    return batch


async def check(claim: Claim) -> Claim:
    return claim


async def note(amount: int) -> str:
    return f"noted {amount}"


async def count(notes: list[str]) -> int:
    return len(notes)


def called(recorder: ListRecorder) -> list[tuple[str | None, int | None, str | None]]:
    events = [event for commit in recorder.commits for event in commit.events if event.kind == "step.started"]
    return [(event.step, event.data.get("item"), event.data.get("label")) for event in events]


def labels_of(recorder: ListRecorder, step: str) -> list[str | None]:
    return [label for name, _, label in called(recorder) if name == step]


async def parked(wf: Workflow, batch: Sequence[Any] = TWO, recorder: ListRecorder | None = None) -> Waiting:
    outcome = await wf.run(list(batch), storage=recorder or ListRecorder())
    assert isinstance(outcome, Waiting)
    return outcome


async def test_a_label_holds_for_every_step_of_its_item_and_no_longer():
    recorder, wf = ListRecorder(), claims()
    waiting = await parked(wf, recorder=recorder)
    assert set(handed_over(waiting.checkpoint).body["position"]["labels"].values()) == {"Ada: 5.0", "Bo: 7.0"}
    assert finished(await answered(wf, waiting, 1, storage=recorder)) == 2
    for step in ("check", "review", "note"):
        assert sorted((item, label) for name, item, label in called(recorder) if name == step) == [
            (0, "Ada: 5.0"),
            (1, "Bo: 7.0"),
        ], step
    assert called(recorder)[-1] == ("count", None, None)
    assert "labels" not in recorder.latest.body["position"]


async def test_without_a_label_an_item_is_called_by_its_values_and_nothing_is_stored():
    recorder = ListRecorder()
    waiting = await parked(claims(label=""), recorder=recorder)
    assert "labels" not in waiting.checkpoint.body["position"]
    assert labels_of(recorder, "check") == ["Ada, 5.0", "Bo, 7.0"]


async def test_an_item_that_is_over_is_forgotten_while_others_go_on():
    recorder, wf = ListRecorder(), claims()
    waiting = await parked(wf, recorder=recorder)
    first = waiting.requests[0].key
    await wf.run(answers={first: 1}, checkpoint=handed_over(waiting.checkpoint), storage=recorder)
    assert list(recorder.latest.body["position"]["labels"].values()) == ["Bo: 7.0"]


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ({"employee": "Ada"}, "Ada"),
        ({"amount": 5}, "5.0"),
        ({"employee": "A\u202eda\n\x00\u200bB", "amount": 5}, "Ada B: 5.0"),
        ({}, None),
    ],
)
async def test_missing_values_and_characters_that_mislead_are_left_out(claim, label):
    recorder = ListRecorder()
    await parked(claims(), [claim], recorder)
    assert labels_of(recorder, "check") == labels_of(recorder, "review") == [label]


async def test_a_long_label_is_cut():
    recorder = ListRecorder()
    await parked(claims(), [{"employee": "x" * 10_000, "amount": 1}], recorder)
    assert labels_of(recorder, "review") == ["x" * 119 + "…"]


async def test_items_of_no_declared_type_are_called_by_their_keys_and_never_by_a_secret():
    recorder, wf = ListRecorder(), Workflow("free")
    wf.step(start=True, name="open")(lambda claim: [{"name": claim["employee"], "token": "hush"}, "bare"])
    wf.step(after=each("open", label="{name} {token}"), name="check")(lambda item: 1)
    wf.step(after="open", name="typed")(declares_a_token)
    await wf.run(TWO[0], storage=recorder)
    assert labels_of(recorder, "check") == ["Ada", "bare"]


async def declares_a_token(claim: list[Any]) -> Claim:
    return Claim()


async def test_an_item_of_a_sub_workflow_and_of_an_inner_map_has_its_own_name():
    inner = Workflow("inner")
    inner.step(start=True, name="split")(split)
    inner.step(after=each("split", label="day {}"), name="day")(plain)
    inner.step(after="day", name="later")(plain)
    inner.step(after=gather("later"), name="sum")(total)
    recorder, wf = ListRecorder(), Workflow("outer")
    wf.step(start=True, name="read")(read)
    wf.sub("inner", inner, after=each("read", label="{employee}"))
    wf.step(after="inner", name="end")(plain)
    await wf.run(TWO[:1], storage=recorder)
    assert labels_of(recorder, "inner/split") == ["Ada"]
    assert labels_of(recorder, "inner/day") == labels_of(recorder, "inner/later") == ["day 1", "day 2"]
    assert labels_of(recorder, "inner/sum") == labels_of(recorder, "end") == ["Ada"]


async def split(claim: Claim) -> list[int]:
    return [1, 2]


async def plain(number: int) -> int:
    return number


async def total(numbers: list[int]) -> int:
    return sum(numbers)


async def test_a_join_inside_an_item_keeps_its_name():
    recorder, wf = ListRecorder(), Workflow("joined")
    wf.step(start=True, name="read")(read)
    wf.step(after=each("read", label=LABEL), name="a")(split_off)
    wf.step(after=each("read"), name="b")(split_off)
    wf.step(after=all_of("a", "b"), name="both")(total)
    await wf.run(TWO, storage=recorder)
    for step in ("a", "b", "both"):
        assert sorted(filter(None, labels_of(recorder, step))) == ["Ada: 5.0", "Bo: 7.0"], step
    assert "labels" not in recorder.latest.body["position"]


async def split_off(claim: Claim) -> int:
    return 1


async def test_another_label_is_no_new_version_and_items_keep_the_name_they_have():
    old, new = claims(), claims(label="Claim of {employee}")
    assert old.version == new.version == claims(label="").version
    for wf in (new, claims(label="")):
        recorder = ListRecorder()
        assert finished(await answered(wf, await parked(old), 1, storage=recorder)) == 2
        assert labels_of(recorder, "note") == ["Ada: 5.0", "Bo: 7.0"]
        assert "run.migrated" not in recorder.kinds


async def test_a_checkpoint_from_before_labels_goes_on_without():
    wf, recorder = claims(), ListRecorder()
    waiting = await parked(claims(label=""))
    assert finished(await answered(wf, waiting, 1, storage=recorder)) == 2
    assert labels_of(recorder, "note") == ["1", "1"]


async def test_a_migration_keeps_the_names_of_items():
    recorder, new = ListRecorder(), claims(review="decide", was="review")
    assert finished(await answered(new, await parked(claims()), 1, storage=recorder)) == 2
    assert "run.migrated" in recorder.kinds
    assert labels_of(recorder, "note") == ["Ada: 5.0", "Bo: 7.0"]


async def test_a_migration_that_drops_the_steps_of_items_drops_their_names():
    old, new = claims(), claims(review="decide")
    checkpoint = handed_over((await parked(old)).checkpoint)
    new.migrate(from_version=old.version)(lambda run: run.drop("review"))
    carried = NativeEngine().carry(new, checkpoint, None)
    assert [record["step"] for record in carried.body["position"]["live"].values()] == ["count"]
    assert "labels" not in carried.body["position"]


async def test_an_earlier_checkpoint_still_knows_the_names():
    recorder, wf = ListRecorder(), claims()
    waiting = await parked(wf, recorder=recorder)
    earlier = handed_over(waiting.checkpoint)
    await answered(wf, waiting, 1, storage=recorder)
    again = ListRecorder()
    assert finished(await restored(wf, earlier, again)) == 2
    assert labels_of(again, "note") == ["Ada: 5.0", "Bo: 7.0"]


async def restored(wf: Workflow, checkpoint: Checkpoint, recorder: ListRecorder) -> Any:
    answers = {request.key: 1 for request in checkpoint.requests}
    return await wf.run(checkpoint=checkpoint, answers=answers, storage=recorder)


class Aliased(BaseModel):
    model_config = {"populate_by_name": True}
    pin: SecretStr = Field(alias="PIN")


async def read_aliased(batch: list[Aliased]) -> list[Aliased]:
    return batch


def takes_nothing(wf: Workflow) -> None:
    wf.step(start=True, name="read")(read)
    wf.step(after=each("read", label="{employee}"), name="check")(lambda: 1)


def two_names(wf: Workflow) -> None:
    wf.step(start=True, name="read")(read)
    wf.step(after=each("read", label="{employee}"), name="check")(check)
    wf.step(after=each("read", label="{amount}"), name="other")(check)


def aliased(wf: Workflow) -> None:
    wf.step(start=True, name="read")(read_aliased)
    wf.step(after=each("read", label="{pin}"), name="check")(lambda item: 1)


def labelled(label: Any) -> Callable[[Workflow], None]:
    def declare(wf: Workflow) -> None:
        wf.step(start=True, name="read")(read)
        wf.step(after=each("read", label=label), name="check")(check)

    return declare


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (labelled("{nmae}"), "an item has no {nmae}, but employee, amount, token"),
        (labelled("{employee.x}"), "an item has no {employee.x}"),
        (labelled("{token}"), "{token} is secret: a label is shown wherever the item is"),
        (labelled("{}"), "holds several values"),
        (labelled("{employee!r}"), "no field of an item: write {field}"),
        (labelled("{employee"), "label of each('read')"),
        (labelled(" "), "characters"),
        (labelled("x" * 1_001), "characters"),
        (labelled(lambda item: "x"), "write a text with fields of the item"),
        (takes_nothing, "takes no message"),
        (two_names, "another step calls the same items '{employee}'"),
        (aliased, "{pin} is secret"),
    ],
)
def test_a_label_that_cannot_name_items_is_refused_with_its_place(declare, words):
    wf = Workflow("wrong")
    declare(wf)
    with pytest.raises(InvalidWorkflow) as caught:
        _ = wf.graph
    assert words in str(caught.value)
    assert "label of each('read')" in str(caught.value)
    assert "the input" not in str(caught.value)

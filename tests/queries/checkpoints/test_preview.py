"""What a preview says is what then happens: over generated graphs, cut and restored anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from checkpoints.models import Checkpoint, Event, Run
from tests.driving import drive, pending, put
from tests.people import make_people, viewer
from tests.workflow.test_cut_anywhere import BLOCKS, Outside, make
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Edits
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.checkpoints.checkpoint import read_editing
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.step_states import count_states, step_transitions
from wfdash.records.checkpoints import CheckpointPreview, StateCounts
from wfdash.workflow import Workflow

pytestmark = pytest.mark.django_db(transaction=True)

RAN = ("step.started", "step.finished", "step.failed", "step.waiting", "step.sleeping")
AGAIN = {"action": "again"}


@pytest.fixture
def shelf(monkeypatch, transactional_db) -> Catalog:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    make_people()
    return found


class Played:
    """A run and what people said in it, by the engine's own names of the questions."""

    def __init__(self, workflow: Workflow, message: int, answers: Iterable[int]) -> None:
        self.person = viewer("adam")
        self.answers = list(answers)
        self.said: dict[str, Any] = {}
        self.run = start_run(self.person, workflow.name, message)

    def go_on(self, rounds: int, cuts: Iterable[int] = ()) -> None:
        """Drive and answer whatever is asked, so many times; the process dies after so many commits each time."""
        for cut in cuts:
            drive(self.run, commits=cut)
        self.say_again(self.run)
        for _ in range(rounds):
            for key in pending(self.run):
                self.said.setdefault(key, self.answers[len(self.said) % len(self.answers)])
            self.say_again(self.run)

    def say_again(self, run: Run) -> None:
        """Drive a run and give the same answers, as far as they were given; calls that were cut off are made again."""
        drive(run)
        while known := [row for key, row in pending(run).items() if key in self.said or row.kind == "effect"]:
            for row in known:
                answer_request(self.person, row.pk, AGAIN if row.kind == "effect" else self.said[row.key])
            drive(run)


def check(played: Played, run: Run, found: CheckpointPreview, after: int, ended: dict[str, StateCounts]) -> None:
    """Compare what was said before with what happened in the run after that event."""
    events = list(Event.objects.filter(run=run, seq__gt=after).order_by("seq"))
    ran = {event.step for event in events if event.kind in RAN}
    again = {one.step for one in found.again}
    assert ran <= again | set(found.repeats)
    assert set(found.repeats) <= ran
    assert {one.step for one in found.again if one.does == "runs"} <= ran
    done = Counter((event.step, event.data["name"]) for event in events if event.kind == "call.done")
    said = Counter[tuple[str, str]]()
    for call in found.outside.repeated:
        said[call.step, call.name] += call.times
    assert done == said
    answered = {event.data["key"] for event in events if event.kind == "request.answered"}
    kept = {one.key for one in found.kept}
    assert {key for key in answered | kept if not key.startswith("call-")} == played.said.keys()
    assert not answered & kept
    finished = Counter(event.step for event in events if event.kind == "step.finished")
    stays = Counter({one.step: one.times for one in found.stays})
    assert stays + finished == Counter({step: counts.done for step, counts in ended.items() if counts.done})


@given(
    blocks=st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4),
    message=st.integers(0, 5),
    answers=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    rounds=st.integers(0, 6),
    cuts=st.lists(st.integers(0, 12), max_size=2),
    turns=st.lists(st.tuples(st.sampled_from(["restore", "fork"]), st.integers(0, 99)), min_size=1, max_size=2),
)
@settings(
    max_examples=settings.default.max_examples // 4,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_what_a_preview_says_is_what_then_happens(shelf, blocks, message, answers, rounds, cuts, turns):
    workflow = make(blocks, Outside())
    put(shelf, workflow)
    played = Played(workflow, message, answers)
    played.go_on(rounds, cuts)
    run, ended = played.run, count_states(step_transitions(played.run.pk))
    for verb, place in turns:
        line = list(Checkpoint.objects.filter(run=run).order_by("n"))
        chosen = line[place % len(line)]
        found = read_preview(played.person, run.pk, chosen.pk, verb=verb)
        assert (found.problem, found.note, found.worker) == ("", "", "")
        stood = Run.objects.get(pk=run.pk).seq
        if verb == "restore":
            restore_run(played.person, run.pk, chosen.pk, seen=found.mark)
            moved = run
        else:
            moved, stood = fork_run(played.person, run.pk, chosen.pk, seen=found.mark), 0
        keys = {one.request.key for one in found.reopens}
        assert pending(moved).keys() == keys
        suggested = {one.request.key: one.suggestion.value for one in found.reopens if one.suggestion}
        assert played.said | suggested == played.said | {key: AGAIN for key in suggested if key.startswith("call-")}
        assert keys & played.said.keys() <= suggested.keys()
        drive(moved)
        asked = [str(row) for key, row in pending(moved).items() if key.startswith("call-") and key not in keys]
        assert sorted(asked) == sorted(found.asks)
        played.say_again(moved)
        check(played, moved, found, stood, ended)
        moved.refresh_from_db()
        run.refresh_from_db()
        assert moved.phase == run.phase
        assert moved.output == run.output


def test_a_step_that_starts_over_forgets_what_it_was_answered_and_calls_again(shelf):
    workflow = make(["ask_twice"], Outside())
    put(shelf, workflow)
    played = Played(workflow, 1, [1])
    played.go_on(1)
    chosen = Checkpoint.objects.filter(run=played.run).order_by("-n")[0]
    plain = read_preview(played.person, played.run.pk, chosen.pk)
    assert (len(plain.kept), plain.forgotten, plain.outside.repeated) == (1, (), ())
    assert [(call.name, call.once) for call in plain.outside.kept] == [("do", True)]
    (doing,) = read_editing(played.person, played.run.pk, chosen.pk).doing
    edits = Edits(messages={doing.activation: 5})
    found = read_preview(played.person, played.run.pk, chosen.pk, edits=edits)
    assert (found.kept, found.forgotten) == ((), plain.kept)
    assert (found.outside.kept, found.outside.repeated) == ((), plain.outside.kept)
    assert [(one.step, one.before, one.after) for one in found.changes] == [("ask_twice0", 2, 5)]
    assert len(found.closes) == 1
    stood = Run.objects.get(pk=played.run.pk).seq
    restore_run(played.person, played.run.pk, chosen.pk, edits=edits, seen=found.mark)
    played.say_again(played.run)
    again = Event.objects.filter(run=played.run, seq__gt=stood).values_list("kind", flat=True)
    assert Counter(again)["call.done"] == Counter(again)["request.answered"] == 1
    assert Counter(again)["request.withdrawn"] == 1

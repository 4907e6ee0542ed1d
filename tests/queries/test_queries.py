"""Reads: what is found through whom, what counts after a restore, and how many queries it takes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from checkpoints.database.compiled import compiled
from checkpoints.models import Claim, HumanRequest, Run
from tests import people
from wfdash.access.viewer import Origin
from wfdash.domain.errors import Invalid, NotFound
from wfdash.queries import history
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.history import CheckpointNode, events_after, lanes_of, last_events, path_to, ranges_to
from wfdash.queries.requests import inbox
from wfdash.queries.requests.inbox import count_open, count_tabs, read_inbox, requests_of
from wfdash.queries.requests.request import read_request
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.queries.step_states import count_states, step_transitions
from wfdash.queries.workflows import read_workflows


@pytest.fixture
def run(everybody) -> Run:
    return people.make_run(created_by=everybody["otto"])


def counts(board):
    return {step: (c.running, c.waiting, c.done) for step, c in board.items()}


def test_a_stranger_finds_nothing(run):
    question = people.ask(run)
    sam = people.viewer("sam")
    assert read_runs(sam).items == ()
    assert read_inbox(sam, "all").items == ()
    assert count_open(sam) == 0
    assert read_workflows(sam) == []
    for look_up in (
        lambda: read_run(sam, run.pk),
        lambda: read_request(sam, question.pk),
        lambda: events_after(sam, run.pk),
        lambda: history.read_checkpoints(sam, run.pk),
    ):
        with pytest.raises(NotFound):
            look_up()


def test_a_grant_for_one_workflow_shows_only_that(everybody):
    from checkpoints.models import Grant

    Grant.objects.create(user=everybody["sam"], role="viewer", workflow="other")
    people.make_run()
    mine = people.make_run(workflow="other")
    assert [row.id for row in read_runs(people.viewer("sam")).items] == [mine.pk]


def test_the_inbox_holds_what_is_addressed_to_the_person(run):
    for_all = people.ask(run, "for all")
    for_finance = people.ask(run, "for finance", by=["finance"])
    for_ben = people.ask(run, "for ben", by=["ben"])
    not_ana = people.ask(run, "not ana", not_by=["ana"])
    own = people.ask(run, "not the requester", not_by=["requester"])

    def inbox(name):
        return {row.id for row in read_inbox(people.viewer(name)).items}

    assert inbox("ana") == {for_all.pk, for_finance.pk, own.pk}
    assert inbox("ben") == {for_all.pk, for_ben.pk, not_ana.pk, own.pk}
    assert inbox("otto") == {for_all.pk, not_ana.pk}
    assert inbox("vera") == set()
    for name in ("ana", "ben", "otto", "vera"):
        assert count_open(people.viewer(name)) == len(inbox(name))


def test_counts_follow_what_a_person_may_at_once(run, everybody):
    people.ask(run, "for finance", by=["finance"])
    ana = people.viewer("ana")
    before = (count_open(ana), count_tabs(ana)["mine"])
    everybody["ana"].groups.clear()
    left = people.viewer("ana")
    after = (count_open(left), count_tabs(left)["mine"])
    everybody["ana"].groups.add(Group.objects.get(name="finance"))
    back = people.viewer("ana")
    assert (before, after) == ((1, 1), (0, 0))
    assert (count_open(back), count_tabs(back)["mine"]) == (1, 1)


def test_requests_are_counted_up_to_a_limit_for_the_navigation(run, everybody, monkeypatch):
    monkeypatch.setattr(inbox, "MAX_WAITING", 3)
    kept = compiled(inbox._open_for.__wrapped__)
    for number in range(4):
        people.ask(run, f"number {number}")
    assert kept(people.viewer("ana")).count() == 3


def test_the_inbox_and_the_resolver_agree(run, everybody):
    for by in ([], ["ana"], ["finance"], ["ben", "editors"]):
        for not_by in ([], ["ana"], ["requester"]):
            people.ask(run, f"{by} {not_by}", by=by, not_by=not_by)
    for name in people.ROLES:
        person = people.viewer(name)
        expected = {
            row.pk
            for row in HumanRequest.objects.all()
            if person.may("answer", row.workflow) and person.addressed(row.by, row.not_by, Origin(starter="otto"))
        }
        assert {row.id for row in read_inbox(person, limit=100).items} == expected


def test_answered_and_closed_requests_leave_the_inbox(run, everybody):
    mine, gone = people.ask(run), people.ask(run, closed=people.THEN, closed_as="withdrawn")
    people.answered(mine, everybody["ana"])
    ana = people.viewer("ana")
    assert {tab: number for tab, number in count_tabs(ana).items() if number} == {"answered": 1}
    row = read_inbox(ana, "answered").items[0]
    assert (row.id, row.verdict, row.answered_by) == (mine.pk, "approve", "ana")
    assert gone.pk not in {row.id for row in read_inbox(ana, "all").items}


@pytest.mark.parametrize("sort", ["age", "due"])
def test_inbox_pages_join_without_gap_or_double(run, sort):
    due = people.THEN + timedelta(days=1)
    for number in range(7):
        people.ask(run, f"q{number}", created=people.THEN, due=due if number % 2 else None)
    ana, seen, cursor = people.viewer("ana"), [], ""
    while True:
        page = read_inbox(ana, sort=sort, cursor=cursor, limit=3)
        seen += [row.id for row in page.items]
        cursor = page.next
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 7


def test_the_inbox_filters_by_word_workflow_and_risk(run):
    wanted = people.ask(run, "Refund the blue chair", risk=3)
    people.ask(run, "Something else", card={"subject": "Something else", "risk": "low"}, risk=1)
    ana = people.viewer("ana")
    for text in ("blue", "risk:high", "BLUE workflow:expense_batch"):
        assert [row.id for row in read_inbox(ana, text=text).items] == [wanted.pk], text
    assert read_inbox(ana, text="workflow:other").items == ()


def test_status_is_derived_from_phase_and_claim(everybody):
    for name, seconds in (("queued", None), ("running", 60), ("interrupted", -60)):
        made = people.make_run(phase="ready", title=name)
        if seconds is not None:
            until = timezone.now() + timedelta(seconds=seconds)
            Claim.objects.create(run=made, token=made.pk, worker="w", epoch=1, expires=until)
    people.make_run(phase="failed", title="failed")
    people.make_run(phase="paused", title="paused", acted_by="otto")
    people.make_run(phase="paused", title="held")
    otto = people.viewer("otto")
    assert all(row.status.value == row.title for row in read_runs(otto).items)
    for name in ("queued", "running", "interrupted", "failed", "paused", "held"):
        assert [row.title for row in read_runs(otto, f"status:{name}").items] == [name]
    assert len(read_runs(otto, "status:open").items) == 5
    assert len(read_runs(otto, "status:queued,failed").items) == 2
    with pytest.raises(Invalid):
        read_runs(otto, "status:nonsense")


def test_run_pages_join_without_gap_or_double(everybody):
    made = {people.make_run().pk for _ in range(7)}
    otto, seen, cursor = people.viewer("otto"), [], ""
    while True:
        page = read_runs(otto, cursor=cursor, limit=3)
        seen += [row.id for row in page.items]
        cursor = page.next
        if not cursor:
            break
    assert set(seen) == made
    assert len(seen) == 7


def test_a_run_tells_what_it_waits_for(run):
    people.ask(run, "Pay 900?")
    assert read_runs(people.viewer("vera")).items[0].waiting_for == ("Pay 900?",)


def test_a_reviewer_gets_no_values(run):
    Run.objects.filter(pk=run.pk).update(output={"x": 1}, error={"type": "E", "message": "m", "traceback": "t"})
    people.happen(run, *people.step("pay", "finished", output={"secret": 1}, ms=3))
    for name, sees in (("ana", False), ("vera", True)):
        found = read_run(people.viewer(name), run.pk)
        assert (found.input is not None, found.output is not None) == (sees, sees)
        assert bool(found.error.message) is sees
        assert ("output" in events_after(people.viewer(name), run.pk).items[0].data) is sees
    assert read_run(people.viewer("otto"), run.pk).error.traceback == "t"


def test_events_come_after_the_cursor_in_order(run):
    people.happen(run, *[("custom", "a", {"name": str(n)}) for n in range(10)])
    vera = people.viewer("vera")
    assert [event.seq for event in events_after(vera, run.pk, after=4, limit=3).items] == [5, 6, 7]
    assert [event.seq for event in last_events(vera, run.pk, before=5, limit=2)] == [3, 4]


def test_lanes_put_abandoned_branches_beside_the_line():
    def node(n, parent):
        return CheckpointNode(id=str(n), n=n, parent=str(parent) if parent else None, seq=n)

    tree = [node(1, 0), node(2, 1), node(3, 2), node(4, 1), node(5, 4), node(6, 2), node(7, 6)]
    assert lanes_of(tree) == {"1": 0, "2": 0, "3": 1, "4": 2, "5": 2, "6": 0, "7": 0}
    assert [found.n for found in path_to(tree)] == [7, 6, 2, 1]


def test_a_line_with_a_hole_ends_at_the_hole_and_what_happened_before_it_counts(run):
    tree = [CheckpointNode(id="5", n=5, parent="4", seq=9), CheckpointNode(id="6", n=6, parent="5", seq=12)]
    assert [found.n for found in path_to(tree)] == [6, 5]
    assert [(span.low, span.high) for span in history.ranges_of(run.pk, tree)] == [(0, 12)]


def test_the_board_counts_the_last_state_of_every_activation(run):
    people.happen(run, *people.step("read", "started", "finished"), *people.step("review", "started", activation="r:1"))
    people.happen(run, *people.step("review", "started", "waiting", activation="r:2"))
    assert counts(count_states(step_transitions(run.pk))) == {"read": (0, 0, 1), "review": (1, 1, 0)}


def test_an_abandoned_branch_does_not_count(run):
    people.happen(run, *people.step("read", "started", "finished"))
    first = people.save(run)
    people.happen(run, *people.step("review", "started", "finished"), *people.step("pay", "started", "finished"))
    second = people.save(run, first)
    people.happen(run, ("run.restored", None, {}))
    people.save(run, first, reason="restore")
    assert counts(count_states(step_transitions(run.pk))) == {"read": (0, 0, 1)}
    people.happen(run, *people.step("review", "started"))
    assert counts(count_states(step_transitions(run.pk))) == {"read": (0, 0, 1), "review": (1, 0, 0)}
    assert [span.high for span in ranges_to(run.pk, second.pk)] == [second.seq]


def test_steps_cut_off_by_a_restore_do_not_count(run):
    first = people.save(run)
    people.happen(run, *people.step("pay", "started"), ("run.restored", None, {}))
    people.save(run, first, reason="restore")
    assert counts(count_states(step_transitions(run.pk))) == {}


def test_a_fork_counts_what_happened_before_it(run):
    people.happen(run, *people.step("read", "started", "finished"), *people.step("review", "started", "waiting"))
    first = people.save(run)
    people.happen(run, *people.step("review", "finished"), *people.step("pay", "started", "finished"))
    people.save(run, first)
    fork = people.make_run(forked_from=first.pk, family=run.family)
    people.happen(fork, ("run.forked", None, {}))
    people.save(fork, first, reason="fork")
    assert counts(count_states(step_transitions(fork.pk))) == {"read": (0, 0, 1), "review": (0, 1, 0)}
    people.happen(fork, *people.step("review", "finished"))
    assert counts(count_states(step_transitions(fork.pk))) == {"read": (0, 0, 1), "review": (0, 0, 1)}
    assert read_run(people.viewer("otto"), fork.pk).origin_run == run.pk


def test_a_preview_says_what_would_happen(run, everybody):
    review = people.step("review", "started", "waiting")
    people.happen(run, *people.step("read", "started", "finished"), *review)
    from checkpoints.records import Request

    pending = Request(key="review:0", step="review", card={"subject": "Pay 900?"})
    first = people.save(run, requests=(pending,), step="review")
    question = people.ask(run, key="review:0")
    people.answered(question, everybody["ben"])
    people.happen(run, *people.step("review", "finished"), *people.step("pay", "started", "finished"))
    people.save(run, first, step="pay")
    people.did(run, "bank.transfer", n=2)
    later = people.ask(run, "A later question", key="later:0")
    found = read_preview(people.viewer("otto"), run.pk, first.pk)
    assert [(item.subject, item.suggestion.by) for item in found.reopens] == [("Pay 900?", "ben")]
    assert [(item.subject, item.answered) for item in found.closes] == [(str(later), False)]
    assert [(item.step, item.does) for item in found.again] == [("review", "waits")]
    assert [(item.step, item.times) for item in found.stays] == [("read", 1)]
    assert set(found.repeats) == {"review", "pay"}
    assert [effect.name for effect in found.effects] == ["bank.transfer"]
    assert not found.current


def test_lists_take_the_same_number_of_queries_however_long(run, django_assert_num_queries, everybody):
    otto, vera = people.viewer("otto"), people.viewer("vera")
    parent = None
    for number in range(12):
        people.ask(people.make_run(), f"q{number}")
        people.happen(run, *people.step("read", "started", "finished", activation=str(number)))
        parent = people.save(run, parent)
    with django_assert_num_queries(6):  # one for those without a name
        read_runs(otto, "status:waiting")
    with django_assert_num_queries(2):
        read_inbox(otto, "mine", "q", sort="due")
    with django_assert_num_queries(1):
        count_tabs(otto)
    with django_assert_num_queries(4):  # it has no name, and no open request
        read_run(vera, run.pk)
    with django_assert_num_queries(4):
        history.read_checkpoints(vera, run.pk)
    with django_assert_num_queries(2):
        events_after(vera, run.pk)
    with django_assert_num_queries(2):
        count_states(step_transitions(run.pk))
    with django_assert_num_queries(1):
        requests_of(vera, run.pk)


def test_history_reads_no_content(run, django_assert_num_queries):
    people.save(run)
    vera = people.viewer("vera")
    with django_assert_num_queries(4) as captured:
        history.read_checkpoints(vera, run.pk)
    assert all('"body"' not in query["sql"] for query in captured.captured_queries)


def test_the_rail_holds_while_the_run_goes_on(run, monkeypatch):
    first = people.save(run)
    read = history.nodes_of

    def read_then_go_on(run_id):
        nodes = read(run_id)
        people.save(run, first)
        return nodes

    monkeypatch.setattr(history, "nodes_of", read_then_go_on)
    assert [row.info.n for row in history.read_checkpoints(people.viewer("vera"), run.pk).rows] == [1]

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from checkpoints.database.storage import write
from checkpoints.models import AuditEntry, AuditHead, Run
from wfdash.actions import audit
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import pause_run, resume_run
from wfdash.domain.hash_chain import BROKEN, hash_of
from wfdash.queries.audit import exported_form

YES = {"action": "approve"}


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    audit._known.clear()
    yield
    audit._known.clear()


@pytest.mark.django_db
def test_each_act_is_one_entry_that_says_who_by_which_right_on_what_and_what_came_of_it(person, ask, run) -> None:
    request = ask(card={"subject": "Pay?", "proposal": {"amount": 5}}, by=["ana"])
    answer_request(person("ana", "reviewer"), request.id, {**YES, "amount": 4}, reason="fits")
    pause_run(person("otto", "operator"), run.id)
    answer, pause = AuditEntry.objects.order_by("n")
    assert (answer.n, answer.actor, answer.verb, answer.right) == (1, "ana", "answer", "named: ana")
    assert (answer.run, answer.request, answer.workflow) == (run.id, request.id, "expense")
    assert answer.facts["subject"] == "Pay?"
    assert answer.facts["proposal"] == {"amount": 5}
    assert (answer.facts["verdict"], answer.facts["stands"], answer.facts["reason"]) == ("approve", "approved", "fits")
    assert (pause.n, pause.actor, pause.verb, pause.prev) == (2, "otto", "pause", answer.hash)
    assert audit.check_chain() == (2, [])


@pytest.mark.django_db
def test_a_refused_act_leaves_no_entry(person, ask) -> None:
    with pytest.raises(Exception, match="fit"):
        answer_request(person("ana", "reviewer"), ask().id, {"action": "maybe"})
    assert not AuditEntry.objects.exists()


def acts(person, run, count: int) -> None:
    otto = person("otto", "operator")
    for _ in range(count // 2):
        pause_run(otto, run.id)
        resume_run(otto, run.id)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda: AuditEntry.objects.filter(n=2).update(actor="mallory"), [2]),
        (lambda: AuditEntry.objects.filter(n=2).update(facts={"amount": 1}), [2]),
        (lambda: AuditEntry.objects.filter(n=2).delete(), [3]),
        (lambda: AuditEntry.objects.filter(n=1).delete(), [2]),
        (lambda: AuditEntry.objects.filter(n=4).delete(), [4]),
        (lambda: AuditEntry.objects.filter(n=3).update(prev="0" * 64), [3, 3]),
        (lambda: AuditHead.objects.update(hash="0" * 64), [4]),
    ],
    ids=["who", "what", "gone", "first gone", "last gone", "link", "head"],
)
def test_whatever_is_altered_is_found(person, run, change, found) -> None:
    acts(person, run, 4)
    change()
    assert [broken.n for broken in audit.check_chain()[1]] == found


@pytest.mark.django_db
def test_an_altered_entry_with_a_new_hash_breaks_its_signature_and_the_one_after_it(person, run) -> None:
    acts(person, run, 4)
    forged = AuditEntry.objects.get(n=2)
    forged.actor = "mallory"
    AuditEntry.objects.filter(n=2).update(actor="mallory", hash=hash_of(exported_form(forged)))
    assert [broken.n for broken in audit.check_chain()[1]] == [2, 3]


@pytest.mark.django_db(transaction=True)
def test_acts_at_once_make_one_chain_without_gaps(person, run) -> None:
    otto = person("otto", "operator")
    gate = threading.Barrier(4)

    def act() -> None:
        gate.wait()
        for _ in range(5):
            with write():
                audit.record_run(otto, "pause", Run(pk=run.id, workflow="expense"))
        connection.close()

    threads = [threading.Thread(target=act) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert audit.check_chain() == (20, [])


@pytest.mark.django_db
def test_the_end_of_the_chain_is_locked_by_the_last_statements_of_an_act(person, run) -> None:
    # The first entries of a process read the end; then it compares the end that it remembers.
    for act, statements in [(pause_run, 3), (resume_run, 2)]:
        with CaptureQueriesContext(connection) as queries:
            act(person("otto", "operator"), run.id)
        touched = [("auditentry" in one["sql"] or "audithead" in one["sql"]) for one in queries]
        assert touched.count(True) == statements
        ends = ("RELEASE", "COMMIT")
        assert all(touched[touched.index(True) : [one["sql"].startswith(ends) for one in queries].index(True)])


@pytest.mark.django_db
def test_entries_of_other_processes_are_in_the_same_chain(person) -> None:
    otto, process = person("otto", "operator"), [dict[str, Any](), dict[str, Any]()]
    counts = []
    for turn in [0, 0, 1, 1, 0, 1, 0, 0, 0]:
        audit._known.clear()
        audit._known.update(process[turn])
        with CaptureQueriesContext(connection) as queries, write():
            audit.record(otto, "acted")
        counts.append(len([one for one in queries if "audit" in one["sql"]]))
        process[turn] = dict(audit._known)
    assert audit.check_chain() == (9, [])
    # Who is no longer alone compares in vain once, then reads the end first until it finds its own there.
    assert counts == [3, 2, 3, 2, 4, 4, 3, 3, 2]


@pytest.mark.django_db
def test_what_was_rolled_back_is_not_what_the_chain_continues(person) -> None:
    otto = person("otto", "operator")
    for verb in ("first", "undone", "second", "third"):
        with suppress(RuntimeError), transaction.atomic():
            audit.record(otto, verb)
            if verb == "undone":
                raise RuntimeError
    assert list(AuditEntry.objects.order_by("n").values_list("n", "verb")) == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]
    assert audit.check_chain() == (3, [])


@pytest.mark.django_db
def test_an_entry_of_another_process_with_the_number_of_one_rolled_back_is_continued(person) -> None:
    otto = person("otto", "operator")
    with suppress(RuntimeError), transaction.atomic():
        audit.record(otto, "undone")
        raise RuntimeError
    ours = dict(audit._known)
    audit._known.clear()
    audit.record(otto, "of another process")
    audit._known.update(ours)
    audit.record(otto, "ours")
    assert audit.check_chain() == (2, [])


@pytest.mark.django_db
def test_with_another_key_the_remembered_end_is_looked_at_again(person, settings) -> None:
    otto = person("otto", "operator")
    audit.record(otto, "first")
    settings.WFDASH_AUDIT_KEY = "another key"
    audit.record(otto, "second")
    assert list(AuditEntry.objects.order_by("n").values_list("verb", flat=True)) == ["first", BROKEN, "second"]


@pytest.mark.django_db
@pytest.mark.parametrize("times", [0, 1, 2], ids=["nothing in the audit", "the first entry", "the next"])
def test_a_commit_on_postgresql_waits_for_the_disk_by_one_expression(times, person) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's connections wait")
    otto = person("otto", "operator")
    for _ in range(max(times, 1)):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        with CaptureQueriesContext(connection) as queries, write():
            if times:
                audit.record(otto, "acted")
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)
    assert len([one for one in queries if "synchronous_commit" in one["sql"]]) == 1


@pytest.mark.django_db
def test_what_is_rolled_back_within_an_act_leaves_no_entry_and_the_others_are_chained(person) -> None:
    otto = person("otto", "operator")
    with write():
        audit.record(otto, "first")
        with suppress(RuntimeError), write():
            audit.record(otto, "undone")
            raise RuntimeError
        audit.record(otto, "second")
        assert not AuditEntry.objects.exists()
    assert list(AuditEntry.objects.order_by("n").values_list("n", "verb")) == [(1, "first"), (2, "second")]
    assert audit.check_chain() == (2, [])


@pytest.mark.django_db
def test_a_transaction_that_fails_leaves_nothing_for_the_next(person) -> None:
    otto = person("otto", "operator")
    with suppress(RuntimeError), write():
        audit.record(otto, "undone")
        raise RuntimeError
    with write():
        audit.record(otto, "done")
    assert list(AuditEntry.objects.values_list("verb", flat=True)) == ["done"]


@pytest.mark.django_db
def test_who_acts_while_the_chain_is_verified_breaks_nothing(person) -> None:
    otto = person("otto", "operator")

    def act_after_the_head_was_read(execute: Any, sql: str, *given: Any) -> Any:
        found = execute(sql, *given)
        if AuditHead._meta.db_table in sql and not acted:
            acted.append(sql)
            with write():
                audit.record(otto, "acted")
        return found

    acted: list[str] = []
    with write():
        audit.record(otto, "began")
    with connection.execute_wrapper(act_after_the_head_was_read):
        assert audit.check_chain() == (1, [])
    assert len(acted) == 1
    assert audit.check_chain() == (2, [])

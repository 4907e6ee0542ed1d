"""Actions on the same rows at the same time wait for each other in one order, so each of them ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Event
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import RequestFactory

from checkpoints.database.storage import write
from checkpoints.models import Grant, HumanRequest, Run
from tests import people
from tests.actions.lock_order import LockOrder
from tests.conftest import threads_of
from wfdash.access.directory import people_who
from wfdash.access.viewer import EVERY, Viewer, viewer_for
from wfdash.actions.common import lock_rows
from wfdash.actions.people import roles
from wfdash.actions.people.accounts import deactivate_person
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request, comment_on
from wfdash.actions.runs.bulk import delete_run
from wfdash.domain.errors import NoLongerOpen, NotFound, Outdated, WrongState
from wfdash.web.api.params import if_match

PAUSE = 0.3
"""Seconds for which the first of two actions waits for the second to write what it should not have locked yet."""


@pytest.fixture
def threads(postgres_alias: str, django_db_blocker: Any) -> Iterator[ThreadPoolExecutor]:
    """Two threads that use PostgreSQL, which locks rows."""
    with django_db_blocker.unblock(), threads_of(postgres_alias, 2) as threads:
        yield threads


def meet(
    threads: ThreadPoolExecutor, first: Callable[[], Any], second: Callable[[], Any], *, writes: str
) -> tuple[Future[Any], Future[Any]]:
    """Begin the second action once the first has locked the run; the first goes on once the second has executed a
    statement that begins so, or has to wait.
    """
    locked, written = Event(), Event()

    def pause(execute: Any, sql: str, *given: Any) -> Any:
        result = execute(sql, *given)
        if sql.startswith("UPDATE checkpoints_run") or ('FROM "checkpoints_run"' in sql and "FOR UPDATE" in sql):
            locked.set()
            written.wait(PAUSE)
        return result

    def note(execute: Any, sql: str, *given: Any) -> Any:
        result = execute(sql, *given)
        if sql.startswith(writes):
            written.set()
        return result

    def act(wrapper: Any, action: Callable[[], Any]) -> Any:
        with connection.execute_wrapper(wrapper):
            return action()

    begun = threads.submit(act, pause, first)
    return begun, threads.submit(lambda: locked.wait(10) and act(note, second))


def asked(**facts: Any) -> HumanRequest:
    people.make_people()
    return people.ask(people.make_run(**facts))


@pytest.mark.postgres
def test_of_an_answer_and_an_assignment_at_once_both_end(threads: ThreadPoolExecutor) -> None:
    request, ana, otto = threads.submit(lambda: (asked(), people.viewer("ana"), people.viewer("otto"))).result()
    answer, assignment = meet(
        threads,
        lambda: answer_request(ana, request.pk, {"action": "approve"}),
        lambda: assign_request(otto, request.pk, "ana"),
        writes='UPDATE "checkpoints_humanrequest"',
    )
    assert answer.result().verdict == "approve"
    with pytest.raises(NoLongerOpen):
        assignment.result()


@pytest.mark.postgres
def test_of_a_deletion_and_a_comment_at_once_both_end(threads: ThreadPoolExecutor) -> None:
    request, otto = threads.submit(lambda: (asked(phase="completed"), people.viewer("otto"))).result()
    deletion, comment = meet(
        threads,
        lambda: delete_run(otto, request.run_id),
        lambda: comment_on(otto, request.pk, "Why?"),
        writes='INSERT INTO "checkpoints_comment"',
    )
    deletion.result()
    with pytest.raises(NotFound):
        comment.result()


@pytest.mark.postgres
def test_who_joins_a_group_need_not_wait_for_a_change_of_it_by_the_api(threads: ThreadPoolExecutor) -> None:
    group, sam = threads.submit(lambda: (Group.objects.create(name="new"), people.make_people()["sam"])).result()
    request, locked, joined = RequestFactory().put("/", headers={"If-Match": '"1"'}), Event(), Event()

    def present() -> dict[str, str]:
        locked.set()
        assert joined.wait(5), "who joins holds the end of the audit by then, for which the change waits next"
        return {}

    def change() -> None:
        with pytest.raises(Outdated), if_match(request, Group.objects.filter(pk=group.pk), present):
            pass

    changed = threads.submit(change)
    threads.submit(lambda: (locked.wait(10), sam.groups.add(group), joined.set())).result()
    changed.result()


@pytest.mark.postgres
def test_of_two_admins_who_remove_each_other_at_once_one_stays(threads: ThreadPoolExecutor, monkeypatch: Any) -> None:
    def make_admins() -> list[Viewer]:
        admins = [User.objects.create(username=name) for name in ("ada", "eve")]
        Grant.objects.bulk_create([Grant(user=admin, role="admin", workflow="*") for admin in admins])
        return [viewer_for(admin) for admin in admins]

    def admins_left(*given: Any, **which: Any) -> list[Viewer]:
        found = [one for one in people_who("admin", EVERY) if one.name in {"ada", "eve"}]
        with suppress(BrokenBarrierError):
            barrier.wait(PAUSE)
        return found

    barrier = Barrier(2)
    ada, eve = threads.submit(make_admins).result()
    monkeypatch.setattr(roles, "people_who", admins_left)
    removed = [threads.submit(deactivate_person, ada, "eve"), threads.submit(deactivate_person, eve, "ada")]
    assert [type(one.exception()) for one in removed].count(WrongState) == 1


@pytest.mark.django_db
def test_what_locks_in_another_order_is_noticed(locks: LockOrder) -> None:
    request = asked()
    run, rows = Run.objects.filter(pk=request.run_id), HumanRequest.objects.filter(pk=request.pk)
    with write():
        lock_rows(run)
        rows.update(asked=None)
    assert not locks.broken
    with write():
        rows.update(asked=None)
        lock_rows(run)
    assert locks.broken.pop().startswith("checkpoints_run is locked late")

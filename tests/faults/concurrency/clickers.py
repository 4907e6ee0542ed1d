"""Plays of impatient people: every verb several times at once under one key; signals one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

AT_ONCE = 3
YES = {"action": "approve"}


def click() -> dict[str, Any]:
    """Do each verb ``AT_ONCE`` times at once with one key; returns what came of it: results, events, acts."""
    from tests.faults.plays import admin

    me = admin()
    admin("ana")
    told = {}
    for name, (phase, kind, does) in _verbs(me).items():
        run, request, checkpoint = _make(name, phase)
        told[name] = _at_once(lambda does=does, ids=(run, request, checkpoint): does(*ids), run, kind)
    return told


def post(run: str, count: int) -> int:
    """Send so many signals, each with a key of its own and each twice."""
    from tests.faults.plays import admin
    from wfdash.actions.runs.signals import send_signal

    me = admin()
    for number in range(count):
        for _ in range(2):
            send_signal(me, run, "letter", number, key=f"{run} {number}")
    return count


def _verbs(me: Any) -> dict[str, tuple[str, str, Callable[..., Any]]]:
    """Return verb -> phase to begin in, the event it leaves, and how it is done to a run, request and checkpoint."""
    from wfdash.actions.checkpoints import fork_run, restore_run
    from wfdash.actions.requests.answer import answer_request
    from wfdash.actions.requests.collaboration import amend_request, ask_back, assign_request, comment_on
    from wfdash.actions.runs.lifecycle import cancel_run, pause_run, resume_run, retry_run, start_run
    from wfdash.actions.runs.signals import send_signal

    one = {"key": "one"}
    return {
        "start": ("", "run.queued", lambda r, q, c: start_run(me, "chain", {"number": 1, "ledger": ""}, **one)),
        "pause": ("waiting", "run.paused", lambda r, q, c: pause_run(me, r, key=f"pause {r}")),
        "resume": ("paused", "run.resumed", lambda r, q, c: resume_run(me, r, key=f"resume {r}")),
        "retry": ("failed", "run.retried", lambda r, q, c: retry_run(me, r, key=f"retry {r}")),
        "cancel": ("waiting", "run.cancelled", lambda r, q, c: cancel_run(me, r, key=f"cancel {r}")),
        "restore": ("waiting", "run.restored", lambda r, q, c: restore_run(me, r, c, key=f"restore {r}")),
        "fork": ("waiting", "run.forked", lambda r, q, c: fork_run(me, r, c, key=f"fork {r}")),
        "signal": ("waiting", "signal.sent", lambda r, q, c: send_signal(me, r, "go", 1, key=f"signal {r}")),
        "answer": ("waiting", "request.answered", lambda r, q, c: answer_request(me, q, YES, key=f"answer {q}")),
        "assign": ("waiting", "request.assigned", lambda r, q, c: assign_request(me, q, "ana", key=f"to {q}")),
        "comment": ("waiting", "request.commented", lambda r, q, c: comment_on(me, q, "Hm", key=f"comment {q}")),
        "ask": ("waiting", "request.asked", lambda r, q, c: ask_back(me, q, "Why?", key=f"ask {q}")),
        "amend": ("waiting", "request.amended", lambda r, q, c: amend_request(me, q, body="x", key=f"amend {q}")),
    }


def _make(name: str, phase: str) -> tuple[str, str, str]:
    """Make a run in a phase with an open request and a checkpoint."""
    if not phase:
        return "", "", ""
    from checkpoints.models import Run
    from tests import people

    run = people.make_run(phase=phase, workflow="chain", title=name)
    if phase == "paused":
        Run.objects.filter(pk=run.pk).update(acted_by="admin")
    checkpoint = people.save(run, step="chain_one", body={"state": {}, "position": {}})
    return run.pk, people.ask(run).pk, checkpoint.pk


def _at_once(does: Callable[[], Any], run: str, kind: str) -> dict[str, Any]:
    from django.db import connection

    from checkpoints.models import AuditEntry, Event

    def one() -> str:
        try:
            return str(does().pk)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    acts = AuditEntry.objects.count()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = [task.result() for task in [pool.submit(one) for _ in range(AT_ONCE)]]
    of_it = Event.objects.filter(kind=kind)
    events = of_it.filter(run=run).count() if run and kind != "run.forked" else of_it.count()
    return {"results": sorted(set(results)), "events": events, "acts": AuditEntry.objects.count() - acts}

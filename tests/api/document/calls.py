"""A call of every operation of the document that can be made, by someone who may make it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from checkpoints.models import Grant, KnownError, Rule, Run
from checkpoints.models.user_model import User
from tests import people
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import save_view, set_absence
from wfdash.actions.people.roles import grant_role
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import save_draft
from wfdash.actions.runs.bulk import start_bulk
from wfdash.actions.schedules import SchedulePlan, create_schedule, pause_schedule
from wfdash.web.api.document import operations
from wfdash.web.api.router import api_document

MESSAGE = {"claims": "x"}
START = {"workflow": people.WORKFLOW, "message": MESSAGE}
PLAN = {"name": "Nightly", "cron": "0 3 * * *", "message": MESSAGE}
DAYS = {"since": "2031-01-01T00:00:00Z", "until": "2031-01-02T00:00:00Z"}
CHOSEN = [{"id": "{request_id}", "seen": "x"}]
BODIES: dict[str, Any] = {
    "start_run": START,
    "check_start": START,
    "bulk_runs": {"verb": "tag", "runs": ["{run_id}"], "add": ["x"]},
    "tag_run": {"add": ["x"]},
    "send_signal": {"name": "shipped"},
    "follow_up": {"message": "And then?"},
    "label_checkpoint": {"label": "a"},
    "preview": {"verb": "fork"},
    "restore_run": {},
    "fork_run": {},
    "answer_request": {"value": {"action": "approve"}},
    "answer_many": {"requests": CHOSEN, "verdict": "approve"},
    "assign_many": {"requests": ["{request_id}"], "to": "{caller}"},
    "undo_many": {"requests": ["{given}"]},
    "write_comment": {"text": "Why?"},
    "assign_request": {"to": "{caller}"},
    "snooze_request": {},
    "extend_deadline": {"due": DAYS["since"]},
    "amend_request": {"body": "More"},
    "save_draft": {"fields": {"reason": ["no"]}},
    "create_schedule": {**PLAN, "workflow": people.WORKFLOW},
    "change_schedule": PLAN,
    "make_group": {"name": "legal"},
    "rename_group": {"name": "sales"},
    "grant_role": {"role": "operator", "person": "sam"},
    "read_notifications": {},
    "create_view": {"name": "Mine"},
    "change_view": {"name": "Other"},
    "create_absence": {"delegate": "ben", **DAYS},
    "triage_error": {"workflow": "{workflow}", "error": "oserror", "mute": "day"},
    "create_rule": {"workflow": "{workflow}", "step": "review", "condition": "tool:refund", "action": "approve"},
    "move_rule": {"to": "suspended", "reason": "Enough"},
}
"""Operation -> a body that it takes. Ids are in braces."""
IDS: dict[str, dict[str, str]] = {
    "resume_run": {"run_id": "{paused}"},
    "retry_run": {"run_id": "{failed}"},
    "delete_run": {"run_id": "{ended}"},
    "delete_checkpoint": {"run_id": "{ended}", "checkpoint_id": "{old}"},
    "undo_answer": {"request_id": "{given}"},
    "resume_schedule": {"schedule_id": "{stopped}"},
    "reactivate_person": {"name": "gone"},
    **{operation: {"name": "ben"} for operation in ("get_person", "deactivate_person", "end_sessions")},
    **{operation: {"name": people.WORKFLOW} for operation in ("get_workflow", "list_workflow_events", "get_code")},
    "add_member": {"person": "ben"},
    "remove_member": {"person": "vera"},
}
"""Operation -> the parameters of its path that are not the usual ones."""
QUERIES = {"compare": {"a": "1", "b": "2"}, "get_coming": {"cron": "@daily"}, "search": {"q": "x"}}
Ids = dict[str, str]


class Call(NamedTuple):
    method: str
    address: str
    body: Any = None

    def send(self, client: Client, **headers: str) -> Any:
        """Return the answer."""
        given = {} if self.method == "get" else {"content_type": "application/json"}
        body = {} if self.body is None else {"data": self.body}
        return getattr(client, self.method)(self.address, **body, **given, headers=headers)


def make_rule(owner: User) -> Rule:
    """Make a rule that was rehearsed."""
    now = timezone.now()
    times = {"since": now, "created": now, "pinned": now, "expires": now + timedelta(days=30)}
    known = {"workflow": people.WORKFLOW, "step": "review", "kind": "approval", "form": "x", "action": "approve"}
    return Rule.objects.create(
        id=1,
        owner=owner,
        state="shadow",
        quota=10,
        days=7,
        share=0.05,
        condition="proposal.amount:<9",
        **known,
        **times,
    )


def things(caller: User, run: Run, history: Any, question: Any) -> Ids:
    """Make one of everything that a call is about, and return the ids by their names. What is personal is the caller's.

    The caller keeps the rights that they have.
    """
    adam, own = viewer_for(User.objects.get(username="adam")), Grant.objects.create(user=caller, role="admin")
    viewer, given = viewer_for(caller), people.ask(run)
    answer_request(viewer, given.pk, {"action": "approve"}, undo=True)
    save_draft(viewer, question.pk, {"reason": ["maybe"]})
    plans = [SchedulePlan(name=name, cron="@daily", message=MESSAGE) for name in ("Running", "Stopped")]
    schedule, stopped = (create_schedule(adam, people.WORKFLOW, plan).pk for plan in plans)
    pause_schedule(adam, stopped)
    now = timezone.now()
    made: dict[str, object] = {
        "absence_id": set_absence(viewer, "ana", now, now + timedelta(days=1)).pk,
        "view_id": save_view(viewer, "View", "q=risk:high").pk,
        "bulk_id": start_bulk(viewer, "tag", [run.pk], add=["x"]).pk,
        "grant_id": grant_role(adam, role="viewer", workflow="*", person="sam").pk,
    }
    own.delete()
    made["rule_id"] = make_rule(User.objects.get(username="adam")).pk
    KnownError.objects.create(workflow=people.WORKFLOW, error="oserror", last_at=now)
    User.objects.create(username="gone", is_active=False)
    Group.objects.create(name="team").user_set.add(User.objects.get(username="vera"))
    states = {"paused": "paused", "failed": "failed", "ended": "completed"}
    runs = {name: people.make_run(phase=phase) for name, phase in states.items()}
    old = people.save(runs["ended"])
    people.save(runs["ended"], old)
    ids = {"schedule_id": schedule, "stopped": stopped, "given": given.pk, "old": old.pk, "request_id": question.pk}
    plain = {"n": "1", "seq": "1", "part": "state", "workflow": people.WORKFLOW, "name": "team"}
    shown = {"run_id": run.pk, "checkpoint_id": history[0].pk, "caller": caller.get_username()}
    made |= {name: one.pk for name, one in runs.items()}
    return {**{name: str(one) for name, one in made.items()}, **ids, **plain, **shown}


def filled(value: Any, ids: Ids) -> Any:
    """Return a value with ids in its texts."""
    if isinstance(value, dict):
        return {name: filled(one, ids) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    return value.format(**ids) if isinstance(value, str) else value


def calls(ids: Ids) -> dict[str, Call]:
    found = {}
    for path, method, one in operations(api_document()):
        name = one["operationId"]
        query = "&".join(f"{field}={value}" for field, value in QUERIES.get(name, {}).items())
        address = path.format(**{**ids, **filled(IDS.get(name, {}), ids)})
        found[name] = Call(method, f"{address}?{query}" if query else address, filled(BODIES.get(name), ids))
    return found

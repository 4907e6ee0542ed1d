"""One table: which right each operation needs. Every role tries every operation."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.test import Client

from checkpoints.models import Grant
from checkpoints.models.user_model import User
from tests.api.document.calls import calls, things
from tests.api.test_every_door import ROLES
from wfdash.web.api.document import operations
from wfdash.web.api.router import api_document

OWN = "own"
"""For everyone: what is theirs, and of what they may see as much as they may see."""
NEEDS: dict[str, tuple[str, ...]] = {
    OWN: (
        *("get_me", "search", "list_notifications", "read_notifications", "list_absences", "end_absence"),
        *("list_views", "create_view", "get_view", "change_view", "delete_view", "get_bulk", "get_coming"),
        *("list_workflows", "list_runs", "list_requests", "count_requests", "list_decisions", "list_schedules"),
        *("list_audit", "export_audit", "export_decisions", "get_statistics", "list_rules"),
        # These answer for each request by itself, also that one may not.
        *("answer_many", "assign_many", "undo_many"),
    ),
    "see": (
        *("get_workflow", "list_workflow_events", "get_run", "list_events", "list_steps", "list_logs", "replay"),
        *("list_checkpoints", "list_run_audit", "get_schedule", "get_request", "list_present"),
        *("list_comments", "write_comment", "get_draft", "save_draft", "drop_draft", "create_absence"),
        "snooze_request",
        # Of an answer that is one's own, whatever one may now.
        "undo_answer",
    ),
    "inspect": ("get_values", "get_checkpoint", "compare", "get_rule"),
    "answer": ("answer_request", "assign_request", "take_request"),
    "start": (
        *("start_run", "check_start", "list_signals", "send_signal", "follow_up"),
        *("create_schedule", "change_schedule", "resume_schedule", "run_schedule"),
    ),
    "code": ("get_code",),
    "operate": (
        *("bulk_runs", "cancel_run", "pause_run", "resume_run", "retry_run", "tag_run", "delete_run"),
        *("get_skew", "migrate_run", "override_run", "answer_again", "label_checkpoint", "delete_checkpoint"),
        *("editing", "preview", "restore_run", "fork_run", "extend_deadline", "amend_request"),
        *("pause_schedule", "delete_schedule", "get_operations", "triage_error", "move_rule"),
        # It needs the rights to answer and to inspect, which of the roles these have together.
        "create_rule",
    ),
    "admin": (
        *("list_people", "get_person", "deactivate_person", "reactivate_person", "end_sessions"),
        *("list_groups", "make_group", "get_group", "rename_group", "delete_group", "add_member", "remove_member"),
        *("get_access", "grant_role", "revoke_role", "get_audit_head"),
        # The first entry is about another person's account.
        "get_audit_entry",
    ),
}
"""Right -> the operations that need it."""
NOTHING_TO_DO = {"answer_again": 409, "migrate_run": 409, "override_run": 409, "follow_up": 409}
"""What those are answered who may, where there is nothing to do."""


def answered(role: str, run: Any, history: Any, question: Any) -> dict[str, int]:
    """Return how each operation answers someone with this role."""
    user, client = User.objects.create(username="somebody"), Client()
    if role:
        Grant.objects.create(user=user, role=role, workflow="*")
    client.force_login(user)
    found = {}
    for name, call in calls(things(user, run, history, question)).items():
        with transaction.atomic():
            found[name] = call.send(client, **{"If-Match": "*"} if call.method != "get" else {}).status_code
            transaction.set_rollback(True)
    return found


def test_every_role_may_call_what_its_rights_say(everybody: Any, run: Any, history: Any, question: Any) -> None:
    for role, rights in ROLES.items():
        with transaction.atomic():
            found = answered(role, run, history, question)
            transaction.set_rollback(True)
        may = {name for right in (OWN, *rights) for name in NEEDS.get(right, ())}
        assert {name for name, status in found.items() if status < 300 or status == NOTHING_TO_DO.get(name)} == may, (
            role
        )
        assert {found[name] for name in found.keys() - may} <= {403, 404, 422}, role


def test_every_operation_needs_one_right() -> None:
    named = [name for names in NEEDS.values() for name in names]
    assert sorted(named) == sorted(one["operationId"] for _, _, one in operations(api_document()))

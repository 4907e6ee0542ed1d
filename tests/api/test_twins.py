"""Every page has its twin in the API, or a reason why not."""

from __future__ import annotations

from collections.abc import Iterable

from django.urls import URLPattern

from tests.api import openapi
from wfdash.urls import urlpatterns

SCREEN = "arranges what the API gives by other addresses: there is nothing of its own in it"
BROWSER = "is about one browser: how it shows things, or what it keeps"
CREDENTIAL = "makes or changes a credential of a person, which no program does for them"
MACHINES = "is for machines already"
SUGGESTIONS = "completes what is typed into a box; docs/filters.md has all there is"

PRINTED = "is made to be printed, and gives its own signed file"
BLIND = "is for people alone: what a program said would be no second look"

TWINS: dict[str, str | tuple[str, ...]] = {
    "inbox": ("list_requests", "count_requests", "answer_request"),
    "focus": SCREEN,
    "inbox-suggestions": SUGGESTIONS,
    "density": BROWSER,
    "view-counts": SCREEN,
    "views": ("list_views", "create_view"),
    "view": ("get_view", "change_view", "delete_view"),
    "batch-result": SCREEN,
    "batch-undo": ("undo_many",),
    "selected": ("assign_many", "answer_many", "snooze_request"),
    "similar": ("answer_many", "list_requests"),
    "undo-all": ("undo_many",),
    "request": ("get_request", "answer_request"),
    "evidence": ("get_request",),
    "undo": ("undo_answer",),
    "draft": ("get_draft", "save_draft", "drop_draft"),
    "presence": BROWSER,
    "take": ("take_request",),
    "assign": ("assign_request",),
    "deadline": ("extend_deadline",),
    "request-people": ("list_present",),
    "talk": ("list_comments", "write_comment"),
    "amend": ("amend_request",),
    "decisions": ("list_decisions",),
    "decisions-export": ("export_decisions",),
    "decisions-suggestions": SUGGESTIONS,
    "rules": ("list_rules", "create_rule"),
    "rule": ("get_rule", "move_rule"),
    "receipts": PRINTED,
    "oversight": PRINTED,
    "second-looks": BLIND,
    "second-look": BLIND,
    "settle-second-look": BLIND,
    "question": BLIND,
    "out-of-office": ("list_absences", "create_absence"),
    "out-of-office-end": ("end_absence",),
    "runs": ("list_runs",),
    "runs-suggestions": SUGGESTIONS,
    "inbox-columns": BROWSER,
    "runs-columns": BROWSER,
    "runs-export": ("list_runs",),
    "runs-bulk": ("bulk_runs",),
    "runs-bulk-result": ("get_bulk",),
    "run": ("get_run", "list_steps"),
    "run-events": ("list_events",),
    "run-events-export": ("list_events",),
    "run-logs": ("list_logs",),
    "run-logs-text": ("list_logs",),
    "run-state": ("get_values",),
    "run-beside": ("list_runs", "get_run", "get_values"),
    "run-history": ("list_checkpoints",),
    "run-migrate": ("get_skew", "migrate_run"),
    "run-override": ("get_skew", "override_run"),
    "run-audit": ("list_run_audit",),
    "run-cancel": ("cancel_run",),
    "run-delete": ("delete_run",),
    "run-follow-up": ("follow_up",),
    "run-signal": ("list_signals", "send_signal"),
    "run-act": ("pause_run", "resume_run", "retry_run", "tag_run"),
    "checkpoint": ("get_checkpoint",),
    "restore": ("preview", "restore_run"),
    "fork": ("preview", "fork_run"),
    "edit": ("editing", "preview"),
    "checkpoint-delete": ("delete_checkpoint",),
    "label": ("label_checkpoint",),
    "compare": ("compare",),
    "replay": ("replay",),
    "people": ("list_people",),
    "person-invite": CREDENTIAL,
    "access": ("get_access", "grant_role", "revoke_role"),
    "groups": ("list_groups", "make_group"),
    "group": ("get_group", "rename_group", "delete_group", "add_member", "remove_member"),
    "person": ("get_person", "deactivate_person", "reactivate_person", "end_sessions"),
    "operations": ("get_operations",),
    "operations-error": ("triage_error",),
    "retention": "shows settings of the server, as wfdash retention show --json does; get_run says when a run goes",
    "statistics": ("get_statistics",),
    "audit": ("list_audit",),
    "audit-suggestions": SUGGESTIONS,
    "audit-entry": ("get_audit_entry",),
    "audit-shown": SCREEN,
    "audit-export": ("export_audit", "get_audit_head"),
    "notifications": ("list_notifications", "read_notifications"),
    "notification": ("list_notifications", "read_notifications"),
    "search": ("search",),
    "getting-started": SCREEN,
    "settings": BROWSER,
    "account": CREDENTIAL,
    "second-factor": CREDENTIAL,
    "push": BROWSER,
    "push-browser": BROWSER,
    "tokens": CREDENTIAL,
    "connect": CREDENTIAL,
    "webhooks": "shows secrets once, to the admin who makes one: they are credentials, too",
    "webhook": "shows secrets once, to the admin who makes one: they are credentials, too",
    "incoming-webhooks": "makes addresses with secrets that other systems call: they are credentials, too",
    "incoming-webhook-new": "makes addresses with secrets that other systems call: they are credentials, too",
    "incoming-webhook": "shows the secret of an address that other systems call: it is a credential, too",
    "incoming-webhook-edit": "changes what an address with a secret does, next to that secret",
    "receive-hook": MACHINES,
    "receive-slack": MACHINES,
    "slack": CREDENTIAL,
    "answer-link": "is the link of a letter: it acts for who received it",
    "workflows-suggestions": SUGGESTIONS,
    "workflows-reloaded": BROWSER,
    "workflows": ("list_workflows",),
    "workflow": ("get_workflow", "get_code", "check_start", "start_run"),
    "schedules": ("list_schedules",),
    "schedules-suggestions": SUGGESTIONS,
    "schedule-new": ("create_schedule",),
    "schedule-next": ("get_coming",),
    "schedule": ("get_schedule", "pause_schedule", "resume_schedule", "run_schedule", "delete_schedule"),
    "schedule-edit": ("change_schedule",),
    "sign-in": CREDENTIAL,
    "sign-in-code": CREDENTIAL,
    "sign-in-passkey": CREDENTIAL,
    "sign-in-link": CREDENTIAL,
    "sign-in-provider": CREDENTIAL,
    "sign-in-callback": CREDENTIAL,
    "sign-out": CREDENTIAL,
    "api": "leads to the API's own reference",
    "api-v1": "leads to the API's own reference",
    "api-docs": "is the API's own reference",
    "manifest": BROWSER,
    "service-worker": BROWSER,
    "offline": BROWSER,
    "favicon": BROWSER,
    "static": BROWSER,
    "livez": MACHINES,
    "readyz": MACHINES,
    "health": MACHINES,
    "metrics": MACHINES,
}
"""Address name -> the operations that do the same, or why there are none."""


def names() -> Iterable[str]:
    return [one.name for one in urlpatterns if isinstance(one, URLPattern) and one.name]


def operations() -> set[str]:
    return {one["operationId"] for methods in openapi.operations().values() for one in methods.values()}


def test_every_page_has_its_twin_or_a_reason() -> None:
    assert set(names()) - TWINS.keys() == set()


def test_every_twin_exists() -> None:
    named = {one for twin in TWINS.values() if isinstance(twin, tuple) for one in twin}
    assert named - operations() == set()

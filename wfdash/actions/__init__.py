"""Actions: everything a person can do, each in one transaction. Pages and the API call these and contain no rules.

Objects are looked up through the ``Viewer``; what a person may not see does not exist for them. An action changes rows
by conditional updates, appends its event, makes the run due and publishes to its topics once the transaction commits.
"""

from __future__ import annotations

from wfdash.actions.account.looks import dismiss_first_steps, set_columns, set_density
from wfdash.actions.account.out_of_office import end_absence, set_absence
from wfdash.actions.account.saved_views import change_view, delete_view, save_view
from wfdash.actions.checkpoints.restore import answer_again, fork_run, label_checkpoint, restore_run
from wfdash.actions.requests.amend import amend_request
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.assign_many import MOST as MOST_ASSIGNED
from wfdash.actions.requests.assign_many import Assigned, assign_requests
from wfdash.actions.requests.batch import Outcome, answer_batch, undo_batch
from wfdash.actions.requests.collaboration import (
    assign_request,
    drop_draft,
    leave_request,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.actions.requests.comments import ask_back, comment_on, reply_to_ask
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.actions.requests.marks import marks_for
from wfdash.actions.runs.bulk import MOST as MOST_AT_ONCE
from wfdash.actions.runs.bulk import (
    UNEXPECTED,
    BulkPreview,
    continue_bulk,
    find_bulk,
    preview_bulk,
    record_export,
    start_bulk,
)
from wfdash.actions.runs.cancellation import cancel_run, pause_run, resume_run
from wfdash.actions.runs.delete import delete_checkpoint, delete_run
from wfdash.actions.runs.follow_up import follow_up
from wfdash.actions.runs.lifecycle import check_start, retry_run, start_run
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.actions.runs.signals import send_signal
from wfdash.actions.runs.tags import tag_runs
from wfdash.actions.schedules.manage import (
    SchedulePlan,
    change_schedule,
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    run_now,
)

__all__ = [
    "MOST_ASSIGNED",
    "MOST_AT_ONCE",
    "UNEXPECTED",
    "Assigned",
    "BulkPreview",
    "Outcome",
    "SchedulePlan",
    "amend_request",
    "answer_again",
    "answer_batch",
    "answer_request",
    "ask_back",
    "assign_request",
    "assign_requests",
    "cancel_run",
    "change_schedule",
    "change_view",
    "check_start",
    "comment_on",
    "continue_bulk",
    "create_schedule",
    "delete_checkpoint",
    "delete_run",
    "delete_schedule",
    "delete_view",
    "dismiss_first_steps",
    "drop_draft",
    "end_absence",
    "extend_deadline",
    "find_bulk",
    "follow_up",
    "fork_run",
    "label_checkpoint",
    "leave_request",
    "marks_for",
    "migrate_run",
    "override_run",
    "pause_run",
    "pause_schedule",
    "preview_bulk",
    "record_export",
    "reply_to_ask",
    "restore_run",
    "resume_run",
    "resume_schedule",
    "retry_run",
    "run_now",
    "save_draft",
    "save_view",
    "send_signal",
    "set_absence",
    "set_columns",
    "set_density",
    "start_bulk",
    "start_run",
    "tag_runs",
    "take_over",
    "undo_answer",
    "undo_batch",
    "watch_request",
]

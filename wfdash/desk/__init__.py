"""Every human verb, one transaction each. Doors call these and own no rule.

Objects are found through the ``Viewer``; what somebody may not see does not exist for them. A verb changes rows by
conditional updates, appends its event, makes the run due and rings the bells once its transaction is committed.
"""

from __future__ import annotations

from wfdash.desk.absence import end_absence, set_absence
from wfdash.desk.batches import Outcome, answer_batch, undo_batch
from wfdash.desk.bulk import MOST as MOST_AT_ONCE
from wfdash.desk.bulk import Rehearsal, find_bulk, go_on, record_export, rehearse, start_bulk
from wfdash.desk.ending import cancel_run
from wfdash.desk.history import fork_run, label_checkpoint, restore_run
from wfdash.desk.requests import answer_request, undo_answer
from wfdash.desk.runs import pause_run, resume_run, retry_run, start_run
from wfdash.desk.schedules import (
    Plan,
    change_schedule,
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
    run_now,
)
from wfdash.desk.signals import send_signal
from wfdash.desk.skew import migrate_run, override_run
from wfdash.desk.tags import tag_runs
from wfdash.desk.talk import amend_request, ask_back, comment_on, reply_to_ask
from wfdash.desk.timers import extend_deadline
from wfdash.desk.together import (
    assign_request,
    drop_draft,
    leave_request,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.desk.views import change_view, delete_view, save_view, set_columns

__all__ = [
    "MOST_AT_ONCE",
    "Outcome",
    "Plan",
    "Rehearsal",
    "amend_request",
    "answer_batch",
    "answer_request",
    "ask_back",
    "assign_request",
    "cancel_run",
    "change_schedule",
    "change_view",
    "comment_on",
    "create_schedule",
    "delete_schedule",
    "delete_view",
    "drop_draft",
    "end_absence",
    "extend_deadline",
    "find_bulk",
    "fork_run",
    "go_on",
    "label_checkpoint",
    "leave_request",
    "migrate_run",
    "override_run",
    "pause_run",
    "pause_schedule",
    "record_export",
    "rehearse",
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
    "start_bulk",
    "start_run",
    "tag_runs",
    "take_over",
    "undo_answer",
    "undo_batch",
    "watch_request",
]

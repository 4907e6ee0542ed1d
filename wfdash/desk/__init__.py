"""Every human verb, one transaction each. Doors call these and own no rule.

Objects are found through the ``Viewer``; what somebody may not see does not exist for them. A verb changes rows by
conditional updates, appends its event, makes the run due and rings the bells once its transaction is committed.
"""

from __future__ import annotations

from wfdash.desk.history import fork_run, restore_run
from wfdash.desk.requests import answer_request, undo_answer
from wfdash.desk.runs import cancel_run, pause_run, resume_run, retry_run, start_run
from wfdash.desk.skew import migrate_run, override_run

__all__ = [
    "answer_request",
    "cancel_run",
    "fork_run",
    "migrate_run",
    "override_run",
    "pause_run",
    "restore_run",
    "resume_run",
    "retry_run",
    "start_run",
    "undo_answer",
]

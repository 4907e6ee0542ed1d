"""Every read, scoped by its viewer: look-up is authorisation, so what somebody may not see is ``NotFound``.

Lists read metadata only and cost a constant number of queries; each function says how many.
"""

from __future__ import annotations

from wfdash.queries.acting import Open, head_of, input_of, open_in
from wfdash.queries.audit import AuditRow, Evidence, act, acts, acts_of_run, evidence, evidence_of, exported_rows, pack
from wfdash.queries.batch import Alike, Batch, batch
from wfdash.queries.board import Move, StepCounts, board, count, moves
from wfdash.queries.comparing import Comparison, compare
from wfdash.queries.course import Deed, course, deeds, reasons
from wfdash.queries.editing import Editing, editing
from wfdash.queries.eventlog import LEVELS, EventPage, Wanted, all_events, find_events
from wfdash.queries.history import CheckpointRow, Rail, checkpoints, events, last_events
from wfdash.queries.inbox import (
    SORTS,
    TABS,
    RequestRow,
    alike,
    alike_here,
    count_all,
    count_open,
    count_since,
    count_tabs,
    following,
    inbox,
    neighbours,
    requests_of,
    rows_now,
)
from wfdash.queries.inspector import Values, values
from wfdash.queries.numbers import Numbers, numbers
from wfdash.queries.paging import Page
from wfdash.queries.preview import Preview, outlook_of, preview
from wfdash.queries.replay import Replay, replay
from wfdash.queries.requests import AnswerView, RequestView, request
from wfdash.queries.runs import (
    RunRow,
    RunView,
    all_ids,
    count_found,
    every_page,
    run,
    runs,
)
from wfdash.queries.runs import count_since as count_runs_since
from wfdash.queries.runs import rows_of as run_rows
from wfdash.queries.runsuggestions import columns_of, run_suggestions
from wfdash.queries.schedules import ScheduledRun, ScheduleRow, runs_of, schedule, schedule_of, schedules, unknown_words
from wfdash.queries.signals import KeptSignal, Signals, Wait, signals, wait
from wfdash.queries.skew import Behind, Choice, OldRuns, behind, choice, old_runs
from wfdash.queries.states import CheckpointView, checkpoint
from wfdash.queries.steps import Activation, Activations, Inside, activations, inside
from wfdash.queries.suggestions import suggestions
from wfdash.queries.together import (
    Together,
    Undoable,
    absences,
    assignable,
    mentionable,
    spoken_for,
    stand_ins,
    thread,
    together,
    undoable,
)
from wfdash.queries.views import ViewRow, view, views
from wfdash.queries.workflows import (
    VersionRow,
    WorkflowRow,
    count_runs,
    description_of,
    failures,
    last_of,
    matching,
    settled,
    titles,
    versions,
    workflow,
    workflows,
)

__all__ = [
    "LEVELS",
    "SORTS",
    "TABS",
    "Activation",
    "Activations",
    "Alike",
    "AnswerView",
    "AuditRow",
    "Batch",
    "Behind",
    "CheckpointRow",
    "CheckpointView",
    "Choice",
    "Comparison",
    "Deed",
    "Editing",
    "EventPage",
    "Evidence",
    "Inside",
    "KeptSignal",
    "Move",
    "Numbers",
    "OldRuns",
    "Open",
    "Page",
    "Preview",
    "Rail",
    "Replay",
    "RequestRow",
    "RequestView",
    "RunRow",
    "RunView",
    "ScheduleRow",
    "ScheduledRun",
    "Signals",
    "StepCounts",
    "Together",
    "Undoable",
    "Values",
    "VersionRow",
    "ViewRow",
    "Wait",
    "Wanted",
    "WorkflowRow",
    "absences",
    "act",
    "activations",
    "acts",
    "acts_of_run",
    "alike",
    "alike_here",
    "all_events",
    "all_ids",
    "assignable",
    "batch",
    "behind",
    "board",
    "checkpoint",
    "checkpoints",
    "choice",
    "columns_of",
    "compare",
    "count",
    "count_all",
    "count_found",
    "count_open",
    "count_runs",
    "count_runs_since",
    "count_since",
    "count_tabs",
    "course",
    "deeds",
    "description_of",
    "editing",
    "events",
    "every_page",
    "evidence",
    "evidence_of",
    "exported_rows",
    "failures",
    "find_events",
    "following",
    "head_of",
    "inbox",
    "input_of",
    "inside",
    "last_events",
    "last_of",
    "matching",
    "mentionable",
    "moves",
    "neighbours",
    "numbers",
    "old_runs",
    "open_in",
    "outlook_of",
    "pack",
    "preview",
    "reasons",
    "replay",
    "request",
    "requests_of",
    "rows_now",
    "run",
    "run_rows",
    "run_suggestions",
    "runs",
    "runs_of",
    "schedule",
    "schedule_of",
    "schedules",
    "settled",
    "signals",
    "spoken_for",
    "stand_ins",
    "suggestions",
    "thread",
    "titles",
    "together",
    "undoable",
    "unknown_words",
    "values",
    "versions",
    "view",
    "views",
    "wait",
    "workflow",
    "workflows",
]

"""Every read, scoped by its viewer: look-up is authorisation, so rows the viewer may not see are ``NotFound``.

Lists read metadata only and cost a constant number of queries; each function says how many.
"""

from __future__ import annotations

from wfdash.catalog import titles
from wfdash.queries.account.first_steps import FirstSteps, first_steps, steps_to_show
from wfdash.queries.account.looks import DENSITIES, ListLooks, looks_of
from wfdash.queries.account.saved_views import ViewRow, view, views
from wfdash.queries.audit.entries import (
    AuditRow,
    Evidence,
    audit_head,
    entries,
    entries_of_run,
    entry,
    evidence,
    evidence_of,
)
from wfdash.queries.audit.export import check_export, exported_rows, pack
from wfdash.queries.audit.qualifiers import audit_suggestions
from wfdash.queries.checkpoints.checkpoint import CheckpointView, checkpoint, steps_at_work
from wfdash.queries.checkpoints.compare import Comparison, compare
from wfdash.queries.checkpoints.editing import Editing, editing
from wfdash.queries.checkpoints.outlook import outlook_of
from wfdash.queries.checkpoints.preview import Preview, preview
from wfdash.queries.history.conversation import conversation
from wfdash.queries.history.events import (
    CheckpointRow,
    Rail,
    check_cursor,
    checkpoints,
    events_after,
    last_events,
)
from wfdash.queries.history.step_outcomes import StepTransition
from wfdash.queries.history.step_states import StepCounts, count_states, step_counts, step_transitions
from wfdash.queries.history.workflow_events import workflow_events, workflow_place
from wfdash.queries.palette.everything import Everything, RunHit, WorkflowHit, named, search_everything
from wfdash.queries.people.people import whom_to_ask
from wfdash.queries.requests.batch import SimilarRequest, SimilarRequests, similar_requests
from wfdash.queries.requests.collaboration import (
    Collaboration,
    Undoable,
    absences,
    answerable_for,
    assignable,
    assignees,
    collaboration,
    mentionable,
    possible_delegates,
    thread,
    undoable,
)
from wfdash.queries.requests.decision_filter import decision_suggestions
from wfdash.queries.requests.decisions import DecisionRow, count_decisions, decisions
from wfdash.queries.requests.inbox import (
    SORTS,
    RequestRow,
    count_similar,
    count_similar_shown,
    count_since,
    inbox,
    neighbours,
    next_request,
    position,
    request_rows,
    request_to_answer,
    requests_of,
)
from wfdash.queries.requests.qualifiers import request_suggestions
from wfdash.queries.requests.request import AnswerView, RequestView, request
from wfdash.queries.requests.tabs import TABS, count_all, count_open, count_tabs
from wfdash.queries.requests.view_counts import count_in_views
from wfdash.queries.run_names import titles_of
from wfdash.queries.runs.before_acting import (
    OpenWork,
    RunContents,
    contents_of,
    head_of,
    input_of,
    last_pause,
    open_work,
    thread_of,
)
from wfdash.queries.runs.events import LEVELS, EventFilter, EventPage, all_events, find_events
from wfdash.queries.runs.fields import FieldValue, field_values, fields_named, offered_fields
from wfdash.queries.runs.filtering.qualifiers import run_suggestions
from wfdash.queries.runs.interventions import Intervention, course_changes, interventions, reasons
from wfdash.queries.runs.listing import (
    DEFAULT_SORT,
    MOST_COMPARED,
    RUN_SORTS,
    all_ids,
    count_found,
    every_page,
    longest,
    run,
    runs,
)
from wfdash.queries.runs.listing import count_since as count_runs_since
from wfdash.queries.runs.listing import rows_of as run_rows
from wfdash.queries.runs.logs import LogFilter, LogPage, LogRecord, all_logs, find_logs
from wfdash.queries.runs.replay import ReplayView, replay
from wfdash.queries.runs.retention import PlannedRemoval, Retention, RetentionPlan, retention
from wfdash.queries.runs.rows import RunRow, RunView
from wfdash.queries.runs.signals import PendingSignal, RunSignals, SignalWait, signal_wait, signals
from wfdash.queries.runs.steps import ActivationDetail, ActivationPage, StepActivation, activation_detail, activations
from wfdash.queries.runs.values import RunValues, run_values
from wfdash.queries.runs.versions import (
    GraphDifference,
    MigrationPreview,
    OldRuns,
    graph_difference,
    migration_plan,
    old_runs,
)
from wfdash.queries.schedules.listing import (
    ScheduledRun,
    ScheduleRow,
    runs_of,
    schedule,
    schedule_of,
    schedules,
)
from wfdash.queries.schedules.qualifiers import schedule_suggestions
from wfdash.queries.search.keyset import Page
from wfdash.queries.search.qualifiers import ListFilter
from wfdash.queries.statistics.failures import ErrorGroup
from wfdash.queries.statistics.figures import Statistics, statistics
from wfdash.queries.statistics.gates import Gate, gates_of
from wfdash.queries.statistics.operations import Operations, count_problems, operations
from wfdash.queries.workflows.catalogue import (
    VersionRow,
    WorkflowRow,
    count_finished,
    count_runs,
    description_of,
    failures,
    last_of,
    versions,
    workflow,
    workflows,
)
from wfdash.queries.workflows.code import code_of, frames_in, is_code_elsewhere, read_code
from wfdash.queries.workflows.qualifiers import matching, workflow_suggestions

__all__ = [
    "DEFAULT_SORT",
    "DENSITIES",
    "LEVELS",
    "MOST_COMPARED",
    "RUN_SORTS",
    "SORTS",
    "TABS",
    "ActivationDetail",
    "ActivationPage",
    "AnswerView",
    "AuditRow",
    "CheckpointRow",
    "CheckpointView",
    "Collaboration",
    "Comparison",
    "DecisionRow",
    "Editing",
    "ErrorGroup",
    "EventFilter",
    "EventPage",
    "Everything",
    "Evidence",
    "FieldValue",
    "FirstSteps",
    "Gate",
    "GraphDifference",
    "Intervention",
    "ListFilter",
    "ListLooks",
    "LogFilter",
    "LogPage",
    "LogRecord",
    "MigrationPreview",
    "OldRuns",
    "OpenWork",
    "Operations",
    "Page",
    "PendingSignal",
    "PlannedRemoval",
    "Preview",
    "Rail",
    "ReplayView",
    "RequestRow",
    "RequestView",
    "Retention",
    "RetentionPlan",
    "RunContents",
    "RunHit",
    "RunRow",
    "RunSignals",
    "RunValues",
    "RunView",
    "ScheduleRow",
    "ScheduledRun",
    "SignalWait",
    "SimilarRequest",
    "SimilarRequests",
    "Statistics",
    "StepActivation",
    "StepCounts",
    "StepTransition",
    "Undoable",
    "VersionRow",
    "ViewRow",
    "WorkflowHit",
    "WorkflowRow",
    "absences",
    "activation_detail",
    "activations",
    "all_events",
    "all_ids",
    "all_logs",
    "answerable_for",
    "assignable",
    "assignees",
    "audit_head",
    "audit_suggestions",
    "check_cursor",
    "check_export",
    "checkpoint",
    "checkpoints",
    "code_of",
    "collaboration",
    "compare",
    "contents_of",
    "conversation",
    "count_all",
    "count_decisions",
    "count_finished",
    "count_found",
    "count_in_views",
    "count_open",
    "count_problems",
    "count_runs",
    "count_runs_since",
    "count_similar",
    "count_similar_shown",
    "count_since",
    "count_states",
    "count_tabs",
    "course_changes",
    "decision_suggestions",
    "decisions",
    "description_of",
    "editing",
    "entries",
    "entries_of_run",
    "entry",
    "events_after",
    "every_page",
    "evidence",
    "evidence_of",
    "exported_rows",
    "failures",
    "field_values",
    "fields_named",
    "find_events",
    "find_logs",
    "first_steps",
    "frames_in",
    "gates_of",
    "graph_difference",
    "head_of",
    "inbox",
    "input_of",
    "interventions",
    "is_code_elsewhere",
    "last_events",
    "last_of",
    "last_pause",
    "longest",
    "looks_of",
    "matching",
    "mentionable",
    "migration_plan",
    "named",
    "neighbours",
    "next_request",
    "offered_fields",
    "old_runs",
    "open_work",
    "operations",
    "outlook_of",
    "pack",
    "position",
    "possible_delegates",
    "preview",
    "read_code",
    "reasons",
    "replay",
    "request",
    "request_rows",
    "request_suggestions",
    "request_to_answer",
    "requests_of",
    "retention",
    "run",
    "run_rows",
    "run_suggestions",
    "run_values",
    "runs",
    "runs_of",
    "schedule",
    "schedule_of",
    "schedule_suggestions",
    "schedules",
    "search_everything",
    "signal_wait",
    "signals",
    "similar_requests",
    "statistics",
    "step_counts",
    "step_transitions",
    "steps_at_work",
    "steps_to_show",
    "thread",
    "thread_of",
    "titles",
    "titles_of",
    "undoable",
    "versions",
    "view",
    "views",
    "whom_to_ask",
    "without_secrets",
    "workflow",
    "workflow_events",
    "workflow_place",
    "workflow_suggestions",
    "workflows",
]

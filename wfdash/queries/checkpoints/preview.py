"""The preview of restoring or forking a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import records, rules
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import Damaged, Incompatible
from checkpoints.models import Checkpoint, Run
from checkpoints.records import Request
from wfdash.access.viewer import Viewer
from wfdash.contract import ActivationInfo, Edited, Edits, LookAhead
from wfdash.domain.invisible import visible
from wfdash.errors import CodeElsewhere
from wfdash.queries.checkpoints.affected_requests import answers_before, closed, reopened
from wfdash.queries.checkpoints.affected_steps import (
    finished,
    last_transitions,
    ranges_after,
    repeated,
    restarted,
    restarted_by_events,
)
from wfdash.queries.checkpoints.checkpoint import find_row
from wfdash.queries.checkpoints.outlook import outlook_of
from wfdash.queries.checkpoints.side_effects import side_effects
from wfdash.queries.history.lineage import nodes_of, ranges_of
from wfdash.queries.secrets import masked_for
from wfdash.queries.unreadable import document
from wfdash.records.checkpoints import CheckpointRecord
from wfdash.records.time_machine import (
    CheckpointPreview,
    EditedValueRecord,
)
from wfdash.schemas.secrets import masked
from wfdash.timemachine import restore_point
from wfdash.timemachine.follow_ups import is_message_due
from wfdash.timemachine.in_flight import driver_of
from wfdash.timemachine.prior_answers import refuse_edits
from wfdash.timemachine.shown import patch_of, unmasked_of

NO_WORKER = "No worker with its code answers; this is based on the events"
MOST = 100
"""Answers that are listed; all are counted."""


@dataclass(frozen=True, kw_only=True)
class _Content:
    """A checkpoint's content before and after edits; empty if it cannot be read."""

    record: records.Checkpoint | None
    edited: Edited | None
    problem: str = ""

    @property
    def requests(self) -> tuple[Request, ...]:
        if self.edited:
            return self.edited.requests
        return self.record.requests if self.record else ()

    @property
    def keys(self) -> set[str]:
        """The keys of its requests."""
        return {request.key for request in self.requests}


def read_preview(
    viewer: Viewer, run_id: str, checkpoint_id: str, *, verb: str = "restore", edits: Edits | None = None
) -> CheckpointPreview:
    """Return the preview, for operators. ``NotFound``, or ``NotAllowed`` for others. Changes nothing.

    ``verb``: restore or fork. ``Invalid`` with errors per field for edits that are not valid or not permitted.
    ``CodeElsewhere`` for edits that no worker with the code answers about.
    """
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    run = Run.objects.only("id", "n", "phase", "epoch").get(pk=run_id)
    content = _edited_content(row, edits)
    outlook, note = _look_ahead(content)
    nodes = nodes_of(run_id)
    led = ranges_of(run_id, nodes, checkpoint_id)
    chosen, message_due = info_of(row), is_message_due(info_of(row))
    then, now = last_transitions(led), last_transitions(ranges_after(run_id, nodes, checkpoint_id))
    doing = outlook.doing if outlook else ()
    afresh = frozenset(edits.messages) if edits else frozenset[str]()
    before = _before(content, doing, edits)
    over = {key for one in before if one.activation in afresh for key in one.answers}
    if content.record and content.edited and edits:
        refuse_edits(viewer, run, row, content.record, content.edited, asked_again=over, reason=edits.reason)
    # A confirmation of a call's outcome is asked again, so its old answer is not kept.
    asked = content.keys | {request.key for request in outlook.asks} if outlook else content.keys
    answers = answers_before(led, asked)
    kept = tuple(one for one in answers if one.key not in over)
    return CheckpointPreview.trusted(
        verb=verb,
        chosen=CheckpointRecord.of(chosen),
        current=run.n == row.n,
        problem=content.problem,
        note=note,
        again=restarted(doing, afresh) if outlook else restarted_by_events(then, content.requests),
        repeats=repeated(then, now, doing if outlook else None),
        stays=finished(then),
        outside=side_effects(run_id, nodes, checkpoint_id, before, afresh),
        reopens=reopened(run_id, content.requests, edits),
        asks=tuple(visible(rules.card_subject(one.card, one.step)) for one in outlook.asks) if outlook else (),
        closes=closed(run_id, content.keys) if verb == "restore" else (),
        kept=kept[:MOST],
        kept_total=len(kept),
        forgotten=tuple(one for one in answers if one.key in over)[:MOST],
        worker=driver_of(run_id),
        mark=restore_point.mark(run, row, verb),
        message_due=message_due,
        message=masked_for(chosen.workflow, document(run, "input")) if message_due else None,
        words=content.edited.words if content.edited else (),
        changes=_changes(content, before, doing, edits) if edits else (),
        patch=tuple(patch_of(content.record, content.edited)) if content.record and content.edited else (),
    )


def _edited_content(row: Checkpoint, edits: Edits | None) -> _Content:
    try:
        record = read_row(row)
        return _Content(record=record, edited=restore_point.edit_checkpoint(record, edits) if edits else None)
    except CodeElsewhere:
        raise
    except (Damaged, Incompatible) as error:
        return _Content(record=None, edited=None, problem=str(error))


def _look_ahead(content: _Content) -> tuple[LookAhead | None, str]:
    record = content.record
    if record is None:
        return None, ""
    if content.edited:
        record = record.model_copy(update={"body": content.edited.body, "requests": content.edited.requests})
    try:
        return outlook_of(record), ""
    except CodeElsewhere:
        if content.edited:
            raise
        return None, NO_WORKER
    except Incompatible as error:
        return None, str(error)


def _before(content: _Content, doing: tuple[ActivationInfo, ...], edits: Edits | None) -> tuple[ActivationInfo, ...]:
    """Return the activations in progress before edits, including those the edits drop."""
    if content.record is None or edits is None or not edits.messages:
        return doing
    return outlook_of(content.record).doing


def _changes(
    content: _Content, before: tuple[ActivationInfo, ...], after: tuple[ActivationInfo, ...], edits: Edits
) -> tuple[EditedValueRecord, ...]:
    """Return the edited values, before and after."""
    if content.record is None or content.edited is None:
        return ()
    names, new = restore_point.secrets_of(content.record), {one.activation: one.message for one in after}
    pairs = [(one.step, one.message, new.get(one.activation)) for one in before if one.activation in edits.messages]
    edited = content.record.model_copy(update={"body": content.edited.body})
    pairs += [("", unmasked_of(content.record).state, unmasked_of(edited).state)]
    return tuple(
        EditedValueRecord.trusted(step=step, before=masked(old, names), after=masked(now, names))
        for step, old, now in pairs
        if old != now
    )

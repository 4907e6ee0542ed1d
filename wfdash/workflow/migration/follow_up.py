"""A run that follows a completed one: it begins with that run's state, at the steps that take its message."""

from __future__ import annotations

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint, Json
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.migration.migration_check import state_problems
from wfdash.workflow.stored.position import position_in


def state_after(graph: Graph, follows: Checkpoint | None) -> dict[str, Json]:
    """Return the state that a run begins with: its defaults, and over them what a completed run has left.

    ``InvalidCall`` if no step takes a follow-up or that run has not ended; ``Incompatible`` if its state is not valid
    in this graph.
    """
    rule = graph.state
    if follows is None:
        return rule.fresh()
    if not graph.follow_ups:
        raise InvalidCall(f"workflow {graph.name!r} has no step with follow_up=True: start a new run instead")
    position = position_in(follows.body)
    if position is None or position["live"] or follows.requests:
        raise InvalidCall("follows= must be the last checkpoint of a completed run: let that run end first")
    kept = follows.body["state"]
    state = {**rule.fresh(but=kept), **kept}
    if problems := list(state_problems(rule, state)):
        text = f"the state of run {follows.run} cannot be continued by the current workflow: {'; '.join(problems)}"
        raise Incompatible(text, run=follows.run, checkpoint=follows.id)
    return state

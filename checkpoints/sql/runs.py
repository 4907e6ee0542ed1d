"""Scripts that list runs, and delete one of a file with everything it has; ``database.runs`` deletes in a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkpoints import rules
from checkpoints.ids import RunId
from checkpoints.limits import findable
from checkpoints.records import Phase, RunInfo
from checkpoints.rules import UNREADABLE
from checkpoints.sql.reads import NEVER, Script
from checkpoints.sql.statements import Dialect, Statement

COLUMNS = ("id", "workflow", "version", "engine", "phase", "n", "forked_from", "created", "updated", "finished")
LIVE = "EXISTS (SELECT 1 FROM checkpoints_claim c WHERE c.run_id=r.id AND c.expires > {now})"
OWNED = (
    "DELETE FROM checkpoints_answer WHERE request_id IN (SELECT id FROM checkpoints_humanrequest WHERE run_id=?)",
    "DELETE FROM checkpoints_humanrequest WHERE run_id=?",
    "DELETE FROM checkpoints_event WHERE run_id=?",
    "DELETE FROM checkpoints_effect WHERE run_id=?",
    "DELETE FROM checkpoints_claim WHERE run_id=?",
    "DELETE FROM checkpoints_checkpoint WHERE run_id=?",
    "DELETE FROM checkpoints_run WHERE id=?",
)


@dataclass(frozen=True, kw_only=True)
class Removed:
    """A deleted run. ``relative``: a run that may share content with it, None if there is none."""

    relative: RunId | None


def list_runs(
    dialect: Dialect, workflow: str | None, phase: Phase | None, before: RunInfo | None, limit: int
) -> Statement:
    """Return the statement that lists runs, newest first."""
    conditions, parameters = ["1=1"], []
    if workflow is not None:
        conditions.append("workflow=?")
        parameters.append(findable(workflow))
    if phase is not None:
        conditions.append("phase=?")
        parameters.append(phase.value)
    if before is not None:
        conditions.append("(created, id) < (?, ?)")
        parameters += [dialect.moment(before.created), findable(before.id)]
    wanted = " AND ".join(conditions)
    columns = f"{', '.join(COLUMNS)}, {LIVE}"
    sql = f"SELECT {columns} FROM checkpoints_run r WHERE {wanted} ORDER BY created DESC, id DESC LIMIT ?"  # noqa: S608
    return dialect.sql(sql), (*parameters, limit)


def listed_runs(
    dialect: Dialect, workflow: str | None, phase: Phase | None, before: RunInfo | None, limit: int
) -> Script[list[RunInfo]]:
    """Return runs, newest first."""
    (rows,) = yield [list_runs(dialect, workflow, phase, before, limit)]
    return [info_of(dialect, row) for row in rows]


def info_of(dialect: Dialect, row: tuple[Any, ...]) -> RunInfo:
    """Return a row as a record; one that cannot be read hides no other."""
    facts = {**dict(zip(COLUMNS, row, strict=False)), "claimed": bool(row[-1])}
    times = dict.fromkeys(("created", "updated", "finished"), NEVER)
    try:
        for name in times:
            times[name] = dialect.time(facts[name])
        return RunInfo(**facts | times)
    except (ValueError, TypeError):
        return RunInfo.trusted(**facts | times | {"phase": Phase.FAILED, "flaw": UNREADABLE})


def remove_run(dialect: Dialect, run: RunId, *, force: bool) -> Script[Removed | None]:
    """Delete a run with everything it has; None if there is none. ``Conflict`` as ``rules.refuse_removal`` says."""
    look = f"SELECT family, phase, {LIVE} FROM checkpoints_run r WHERE id=?{{lock}}"  # noqa: S608
    (rows,) = yield [(dialect.sql(look), (run,))]
    if not rows:
        return None
    family, phase, claimed = rows[0]
    rules.refuse_removal(run, Phase(phase), claimed=bool(claimed), force=force)
    yield [(dialect.sql(statement), (run,)) for statement in OWNED]
    (relatives,) = yield [(dialect.sql("SELECT id FROM checkpoints_run WHERE family=? LIMIT 1"), (family,))]
    if not relatives:
        yield [(dialect.sql("DELETE FROM checkpoints_chunk WHERE family=?"), (family,))]
    return Removed(relative=RunId(relatives[0][0]) if relatives else None)

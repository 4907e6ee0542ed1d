"""The read operations as generators: they yield batches of statements and receive their rows."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from checkpoints import rules
from checkpoints.config import Needs
from checkpoints.content.canonical_json import loads
from checkpoints.content.chunks import decode, hashes_in, hashes_in_chunk, verify_chunks, verify_digest, with_digest
from checkpoints.content.encryption import Encryptor, encryptor_of
from checkpoints.errors import Damaged, NotFound
from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId
from checkpoints.limits import findable
from checkpoints.records import (
    ENDED,
    FORMAT,
    Answer,
    Checkpoint,
    CheckpointFilter,
    CheckpointInfo,
    Event,
    Phase,
    Reason,
    Request,
    RunFacts,
    RunInfo,
    frozen,
)
from checkpoints.rules import NEVER, UNREADABLE
from checkpoints.sql.statements import METADATA, Dialect, Rows, Statement, Statements, select_chunks
from checkpoints.sql.tables import INFO

# Scripts that list runs, and delete one of a file with everything it has; ``database.runs`` deletes in a database.

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


@frozen
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
    sql = f"SELECT {columns} FROM checkpoints_run r WHERE {wanted} ORDER BY created DESC, id DESC LIMIT ?"
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
    look = f"SELECT family, phase, {LIVE} FROM checkpoints_run r WHERE id=?{{lock}}"
    (rows,) = yield [(dialect.sql(look), (run,))]
    if not rows:
        return None
    family, phase, claimed = rows[0]
    rules.refuse_removal(run, Phase.stored(phase), claimed=bool(claimed), force=force)
    yield [(dialect.sql(statement), (run,)) for statement in OWNED]
    (relatives,) = yield [(dialect.sql("SELECT id FROM checkpoints_run WHERE family=? LIMIT 1"), (family,))]
    if not relatives:
        yield [(dialect.sql("DELETE FROM checkpoints_chunk WHERE family=?"), (family,))]
    return Removed(relative=RunId(relatives[0][0]) if relatives else None)


# Reads of one run: its facts, checkpoints, events and answers.

T = TypeVar("T")
Script: TypeAlias = Generator[Sequence[Statement], list[Rows], T]

CHUNKS_PER_READ = 30_000
"""Chunks read by one statement; databases limit the number of parameters."""


@dataclass(frozen=True)
class ReadScripts:
    """The read operations in one dialect."""

    dialect: Dialect
    sql: Statements
    encryptor: Encryptor = field(default_factory=lambda: encryptor_of(""))
    """Encrypts what is written and decrypts what is read; without keys, neither."""

    def facts(self, run: RunId) -> Script[RunFacts]:
        """Return what running a run needs."""
        (rows,) = yield [(self.sql.facts, (run,))]
        if not rows:
            raise NotFound("Run not found", run=run)
        return self.facts_of(run, *rows[0])

    def facts_of(self, run: RunId, *stored: Any) -> RunFacts:
        """Return the facts that a run's row stores (as text or its bytes): workflow, version, input, n, attempts.

        ``Damaged``, ``Locked``.
        """
        try:
            workflow, version, message, n, attempts = [str(v, "utf-8") if isinstance(v, bytes) else v for v in stored]
            read = self._document(message, "run", run, "input")
        except ValueError as error:
            raise Damaged("the run's input cannot be read: restore the database from a backup", run=run) from error
        return RunFacts(run=run, workflow=WorkflowId(workflow), version=version, input=read, n=n, attempts=attempts)

    def needs(self, run: RunId) -> Script[Needs]:
        """Return what depends on a run's checkpoints."""
        phases, origins = yield [(self.sql.phase, (run,)), (self.sql.origins, (run,))]
        ended = bool(phases) and Phase.stored(phases[0][0]) in ENDED
        return Needs(ended=ended, origins=frozenset(id_ for (id_,) in origins))

    def load(self, run: RunId, checkpoint: CheckpointId) -> Script[Checkpoint]:
        """Return one checkpoint, read with its chunks."""
        (rows,) = yield [(self.sql.load, (run, checkpoint))]
        if not rows:
            raise NotFound(run=run, checkpoint=checkpoint)
        return (yield from self._content(rows[0]))

    def latest(self, run: RunId) -> Script[Checkpoint | None]:
        """Return the newest checkpoint, read with its chunks."""
        (rows,) = yield [(self.sql.latest, (run,))]
        return (yield from self._content(rows[0])) if rows else None

    def _content(self, row: tuple[Any, ...]) -> Script[Checkpoint]:
        info = self._info(row)
        rules.refuse_unreadable(info)
        try:
            root = with_digest(self._payload(info, row[-1]))
            content = decode(root, (yield from self._tree(info.run, root)))
            requests = tuple(Request.model_validate(request) for request in content["requests"])
            return Checkpoint.trusted(**dict(info), body=content["body"], requests=requests)
        except Damaged as error:
            error.facts.update(run=info.run, checkpoint=info.id)
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged("the stored checkpoint lacks its parts", run=info.run, checkpoint=info.id) from error

    def _payload(self, info: CheckpointInfo, body: str) -> bytes:
        """Return the payload of a checkpoint's root. ``Damaged`` if it is another row's; ``Locked``."""
        return verify_digest(self.encryptor.decrypt(body, "checkpoint", info.run, info.id), rules.row_of(info))

    def _tree(self, run: str, root: str) -> Script[dict[str, bytes]]:
        """Return a root's chunks, read one level of the tree per statement."""
        chunks: dict[str, bytes] = {}
        wanted = hashes_in(root)
        if wanted:
            ((family,),) = (yield [(self.sql.family, (run,))])[0]
        while wanted:
            now, wanted = wanted[:CHUNKS_PER_READ], wanted[CHUNKS_PER_READ:]
            level = yield from self.chunks(family, now)
            chunks.update(level)
            wanted += {key for data in level.values() for key in hashes_in_chunk(data)} - chunks.keys()
        return chunks

    def chunks(self, family: str, hashes: Sequence[str]) -> Script[dict[str, bytes]]:
        """Return the chunks of a family that are stored, by hash. ``Damaged``, ``Locked``."""
        names = self.encryptor.names(family, hashes)
        (rows,) = yield [(select_chunks(self.dialect, len(names)), (family, *names))]
        return verify_chunks(
            [(names[name], self.encryptor.decrypt_chunk(bytes(data), family, name)) for name, data in rows]
        )

    def listing(self, run: RunId, before: int, limit: int, where: CheckpointFilter) -> Script[list[CheckpointInfo]]:
        """Return metadata, newest first."""
        (rows,) = yield [list_checkpoints(self.dialect, run, before, limit, where)]
        return [self._info(row) for row in rows]

    def ids(self, run: RunId) -> Script[list[CheckpointId]]:
        """Return all ids, newest first."""
        (rows,) = yield [(self.sql.ids, (run,))]
        return [CheckpointId(id_) for (id_,) in rows]

    def run_of(self, checkpoint: CheckpointId) -> Script[RunId | None]:
        """Return whose a checkpoint is, None if there is none of this id."""
        (rows,) = yield [(self.dialect.sql("SELECT run_id FROM checkpoints_checkpoint WHERE id=?"), (checkpoint,))]
        return RunId(rows[0][0]) if rows else None

    def events(self, run: RunId, after: int, limit: int) -> Script[list[Event]]:
        """Return events in order."""
        (rows,) = yield [(self.sql.events, (run, after, limit))]
        return [self._event(run, *row) for row in rows]

    def answers(self, run: RunId) -> Script[dict[RequestKey, Answer]]:
        """Return answers the engine has not taken."""
        (rows,) = yield [(self.sql.answers, (run,))]
        return {RequestKey(row[1]): self._answer(run, *row) for row in rows}

    def past_answers(self, run: RunId) -> Script[dict[RequestKey, Answer]]:
        """Return the last answer of each request, also those the engine has taken."""
        (rows,) = yield [(self.sql.past_answers, (run,))]
        return {RequestKey(row[1]): self._answer(run, *row) for row in rows}

    def _document(self, text: str | None, *row: str) -> Any:
        """Return the document that a row stores as text, None where it is null. ``Damaged``, ``Locked``."""
        return None if text is None else loads(self.encryptor.decrypt_document(text, *row))

    def _info(self, row: tuple[Any, ...]) -> CheckpointInfo:
        facts = dict(zip(INFO, row, strict=False))
        try:
            facts["reason"] = Reason(facts["reason"])
            facts["created"] = self.dialect.time(facts["created"])
            facts["clean"] = bool(facts["clean"])
            facts["facts"] = rules.facts_in(facts["facts"])
            facts["format"] = int(facts["format"])
        except (ValueError, TypeError):
            damaged = {"reason": Reason.STEP, "created": NEVER, "clean": False, "flaw": rules.UNREADABLE}
            facts.update(damaged, facts={}, format=FORMAT)
        return CheckpointInfo.trusted(**facts)

    def _event(self, run: RunId, kind: str, step: str | None, data: str, seq: int, at: Any) -> Event:
        flaw = ""
        try:
            read, time = self._document(data, "event", run, str(seq), "data"), self.dialect.time(at)
        except (ValueError, TypeError):
            read, time, flaw = {}, NEVER, rules.UNREADABLE
        return Event.trusted(kind=kind, step=step, data=read, run=run, seq=seq, at=time, flaw=flaw)

    def _answer(
        self,
        run: RunId,
        request: str,
        key: str,
        value: str | None,
        by: str | None,
        at: Any,
        acting_for: str,
        others: str,
        rule: int | None,
        person: Any,
        bound: str,
    ) -> Answer:
        """Return an answer. ``Damaged`` if it cannot be read or was changed: no run continues with another one."""
        try:
            read, person = self._document(value, "answer", request, "value"), rules.rule_name(rule) or person
            # One from before there were digests has none.
            if bound and bound != rules.answer_digest(
                request, key, read, person, self.dialect.time(at), acting_for, others
            ):
                raise ValueError("it does not match its digest")
            given = {"by": by, "at": self.dialect.time(at), "acting_for": acting_for or None}
            given["others"] = tuple(loads(others)) if others else ()
        except (ValueError, TypeError) as error:
            words = f"the answer to {key} cannot be read: restore the run's newest checkpoint, which asks again"
            raise Damaged(words, run=run, key=key) from error
        return Answer.trusted(key=RequestKey(key), value=read, **given)


# The statement that lists a run's checkpoints, by a filter.

CONDITIONS = {
    "step": "step=?",
    "reason": "reason=?",
    "clean": "clean=?",
    "has_request": ("waiting=0", "waiting>0"),
    "labelled": ("label IS NULL", "label IS NOT NULL"),
    "label": "label=?",
    "since": "created>=?",
    "until": "created<?",
}
"""The SQL of each field of a ``CheckpointFilter``; a pair is that of false and true, without a parameter."""


def list_checkpoints(dialect: Dialect, run: str, before: int, limit: int, where: CheckpointFilter) -> Statement:
    """Return the statement that lists a run's metadata, newest first."""
    conditions = ["run_id=?", "n < ?"]
    parameters: list[Any] = [run, before]
    for name, condition in CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            conditions.append(condition if isinstance(condition, str) else condition[value])
        if value is not None and isinstance(condition, str):
            parameters.append(dialect.parameter(value))
    wanted = " AND ".join(conditions)
    sql = dialect.sql(f"SELECT {METADATA} FROM checkpoints_checkpoint WHERE {wanted} ORDER BY n DESC LIMIT ?")
    return sql, (*parameters, limit)

"""Scripts seen through a sealer: what they store leaves them sealed, what they read comes back open.

The scripts and their statements know nothing of it. Here stands which parameter and which column of which statement
holds content, and what row it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from checkpoints.errors import Damaged
from checkpoints.scripts import Script, Scripts
from checkpoints.seal import CLEAR, Locked, Sealer
from checkpoints.sql import COLUMNS, Rows, Statement, select_chunks

T = TypeVar("T")
Outward = Callable[[tuple[Any, ...]], tuple[Any, ...]]
Inward = Callable[[tuple[Any, ...], Rows], Rows]

EVENT = 5
"""Parameters of one event."""
CHUNK = 3
"""Parameters of one chunk."""
UNKNOWN = 2**30
"""A format later than any."""
BODY = len(COLUMNS)


class Sealing:
    """Which statements carry content, in one dialect."""

    def __init__(self, scripts: Scripts, sealer: Sealer) -> None:
        sql, self._dialect, self._sealer = scripts.sql, scripts.dialect, sealer
        self._outward: dict[str, Outward] = {
            sql.checkpoint: self._checkpoint,
            sql.open: self._request,
            sql.settle: self._standing,
            sql.settle_fenced: self._standing,
            sql.effect: lambda p: (*p[:6], self._seal(p[6], "effect", p[0], p[1], "result"), p[7]),
            sql.effect_result: lambda p: (p[0], self._seal(p[1], "effect", p[3], p[4], "result"), *p[2:]),
        }
        self._inward: dict[str, Inward] = {
            sql.load: self._checkpoints,
            sql.latest: self._checkpoints,
            sql.roots: lambda p, rows: [(*r[:2], *self._followed(r[2], r[3], p[0], r[0])) for r in rows],
            sql.events: self._events,
            sql.facts: lambda p, rows: [(*r[:3], self._read(r[3], "run", p[0], "input"), *r[4:]) for r in rows],
        }
        self._answers = sql.answers, sql.answers.replace("SELECT ", "SELECT a.request_id, ", 1)

    def outward(self, statement: Statement) -> Statement:
        """Return a statement as the database gets it."""
        text, params = statement
        if text in self._outward:
            return text, self._outward[text](params)
        if text.startswith("INSERT INTO checkpoints_event "):
            return text, self._new_events(params)
        if text.startswith("INSERT INTO checkpoints_chunk "):
            return text, self._new_chunks(params)
        if text.startswith("SELECT hash, data "):
            names = self._sealer.names(params[0], params[1:])
            return select_chunks(self._dialect, len(names)), (params[0], *names)
        if text.startswith("SELECT format, body "):
            return text.replace("SELECT format, body ", "SELECT format, body, run_id, id ", 1), params
        return (self._answers[1], params) if text == self._answers[0] else statement

    def inward(self, statement: Statement, rows: Rows) -> Rows:
        """Return a statement's rows as its script gets them. ``Damaged``, ``Locked``."""
        text, params = statement
        if text in self._inward:
            return self._inward[text](params, rows)
        if text.startswith("SELECT hash, data "):
            return self._chunks(params, rows)
        if text.startswith("SELECT format, body "):
            return [self._followed(*row) for row in rows]
        if text == self._answers[0]:
            return [(r[1], self._read(r[2], "answer", r[0], "value"), *r[3:]) for r in rows]
        return rows

    def _seal(self, text: str | None, *row: str) -> str | None:
        return None if text is None else self._sealer.seal_document(text, *row)

    def _read(self, text: Any, *row: str) -> str | None:
        return None if text is None else self._sealer.open_document(text, *row)

    def _root(self, body: str, run: str, checkpoint: str) -> str:
        return self._sealer.open(body, "checkpoint", run, checkpoint)

    def _followed(self, format_: int, body: str, run: str, checkpoint: str) -> tuple[int, str]:
        """Return format and root; of what does not open, a format that nobody can follow."""
        try:
            return format_, self._root(body, run, checkpoint)
        except (Damaged, Locked):
            return UNKNOWN, body

    def _checkpoint(self, p: tuple[Any, ...]) -> tuple[Any, ...]:
        return *p[:BODY], self._sealer.seal(p[BODY], "checkpoint", p[1], p[0])

    def _checkpoints(self, params: tuple[Any, ...], rows: Rows) -> Rows:
        try:
            return [(*row[:BODY], self._root(row[BODY], row[1], row[0])) for row in rows]
        except Damaged as error:
            error.facts.update(run=rows[0][1], checkpoint=rows[0][0])
            raise

    def _new_chunks(self, params: tuple[Any, ...]) -> tuple[Any, ...]:
        sealed: list[Any] = []
        for at in range(0, len(params), CHUNK):
            family, key, data = params[at : at + CHUNK]
            sealed += [family, self._sealer.name(family, key), self._sealer.seal_chunk(data, family, key)]
        return tuple(sealed)

    def _chunks(self, params: tuple[Any, ...], rows: Rows) -> Rows:
        family = params[0]
        keys = self._sealer.names(family, params[1:])
        return [(keys[name], self._sealer.open_chunk(bytes(data), family, name)) for name, data in rows]

    def _request(self, p: tuple[Any, ...]) -> tuple[Any, ...]:
        card, schema = self._seal(p[6], "request", p[0], "card"), self._seal(p[7], "request", p[0], "answer_schema")
        return *p[:6], card, schema, *p[8:]

    def _standing(self, p: tuple[Any, ...]) -> tuple[Any, ...]:
        run = p[10]
        return *p[:6], self._seal(p[6], "run", run, "output"), self._seal(p[7], "run", run, "error"), *p[8:]

    def _new_events(self, params: tuple[Any, ...]) -> tuple[Any, ...]:
        sealed: list[Any] = []
        for at in range(0, len(params), EVENT):
            run, seq, kind, step, data = params[at : at + EVENT]
            sealed += [
                run,
                seq,
                kind,
                step,
                self._sealer.seal_document(data, "event", run, str(seq), "data", clear=CLEAR),
            ]
        return tuple(sealed)

    def _events(self, params: tuple[Any, ...], rows: Rows) -> Rows:
        return [(*r[:2], self._read(r[2], "event", params[0], str(r[3]), "data"), *r[3:]) for r in rows]


def through(script: Script[T], sealing: Sealing) -> Script[T]:
    """Return the script with its statements sealed and its rows opened."""
    batch = next(script)
    while True:
        rows = yield [sealing.outward(statement) for statement in batch]
        try:
            batch = step(script, batch, rows, sealing)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def step(script: Script[Any], batch: Sequence[Statement], rows: list[Rows], sealing: Sealing) -> Sequence[Statement]:
    """Hand a script its rows, or the error that they do not open; returns its next statements."""
    try:
        opened = [sealing.inward(statement, found) for statement, found in zip(batch, rows, strict=True)]
    except Exception as error:
        return script.throw(error)
    return script.send(opened)

"""Retention: what is old, or over, is removed a little at a time."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db.models import Field, Model

from checkpoints.content.encryption import Locked
from checkpoints.database.alias import alias
from checkpoints.database.clock import database_now
from checkpoints.database.runs import (
    MOST_AT_ONCE,
    RemovedPart,
    RemovedRuns,
    begin_removal,
    info_of,
    read_row,
    remove_locked,
    remove_part,
)
from checkpoints.database.storage import write
from checkpoints.errors import CheckpointsError, Unreadable
from checkpoints.models import Answer, Checkpoint, Comment, Effect, Event, HumanRequest, Reply, Run, RunFact, Signal
from checkpoints.models.fields import current_encryptor
from checkpoints.models.user_model import User
from checkpoints.records import frozen
from wfdash.actions import audit
from wfdash.actions.pacing import is_outage
from wfdash.actions.runs.bulk import drop_content
from wfdash.domain.search_attributes import TAG
from wfdash.installation.keep_rules import KeepRules
from wfdash.queries.runs.retention import VERB, Ending, current_rules, free_to_go, in_order, old_runs

log = logging.getLogger(__name__)

RUNS_PER_QUERY = 500
"""Runs picked by one query."""
ROWS_BESIDE = 12
"""Rows that a run has beside its events and checkpoints, about."""
COUNTED = {"events": "Event", "checkpoints": "Checkpoint", "requests": "HumanRequest"}
"""What the audit says of a batch: how many rows of these went with its runs."""


@frozen
class OldRun:
    """A run that may go, as it was when it was picked: a later ``version`` means that it has changed."""

    at: Ending
    version: tuple[Any, ...]
    rows: int


@frozen
class RemovedBatch:
    """What was removed. ``seconds``: for how long others could not write, on SQLite. ``last``: no run is left that may
    go.
    """

    runs: Sequence[str] = ()
    rows: int = 0
    seconds: float = 0.0
    last: bool = True


@frozen
class BatchSize:
    """Rows that the next batch may remove, so that its transaction takes about ``TARGET`` seconds."""

    rows: int = 1_000

    TARGET = 0.04
    LEAST, MOST = 1_000, 20_000

    def after(self, rows: int, seconds: float) -> BatchSize:
        """Return the size that follows a batch of so many rows: at most twice as large."""
        fitting = rows * self.TARGET / max(seconds, 0.0001)
        return replace(self, rows=int(min(max(fitting, self.LEAST), self.rows * 2, self.MOST)))


class RunRemover:
    """Removes what the setting no longer keeps, in the order in which runs ended, from where the last batch ended.

    Runs whose removal has begun come first, by this worker or another. A run that cannot be removed holds up no other:
    it is logged, passed over, and tried again when the oldest run is next.
    """

    def __init__(self, size: BatchSize | None = None) -> None:
        self._size = size or BatchSize()
        self._picked: list[OldRun] = []
        self._after: Ending | None = None
        self._begun: list[str] = []
        self._failed: set[str] = set()
        self._singly = 0
        """How many of those picked are removed one by one, because a batch with one of them failed."""

    def remove_next(self) -> RemovedBatch:
        """Remove the next batch. Its ``last`` says that the next one begins with the oldest run again."""
        rules = current_rules()
        if not self._picked and not self._begun:
            self._look(rules)
        if self._begun:
            batch = self._remove_rest(self._begun[0])
        elif rules and self._picked:
            batch = self._remove(self._next(), rules)
        else:
            self._failed.clear()
            return RemovedBatch()
        if batch.rows:
            self._size = self._size.after(batch.rows, batch.seconds)
        return batch

    def _remove_rest(self, run: str) -> RemovedBatch:
        try:
            batch = remove_rest(run, self._size.rows)
        except Exception as error:
            self._pass_over([run], error)
            batch = RemovedBatch()
        if batch.last:
            self._begun.pop(0)
        return replace(batch, last=False)

    def _remove(self, found: list[OldRun], rules: KeepRules) -> RemovedBatch:
        is_large = found[0].rows > max(self._size.rows, MOST_AT_ONCE)
        try:
            batch = remove(found, rules, in_parts=is_large)
        except Exception as error:
            self._pass_over([one.at.run for one in found], error)
            if len(found) > 1:
                self._picked, self._singly = found + self._picked, len(found)
            return RemovedBatch(last=False)
        self._begun += batch.runs if is_large else ()
        return batch

    def _pass_over(self, runs: Sequence[str], error: Exception) -> None:
        """Note a run that fails; of several the one that does is found next. What says nothing of runs is raised."""
        if is_outage(error) or isinstance(error, OSError):
            raise error
        if len(runs) == 1:
            self._failed.update(runs)
            log.error("Run %s cannot be removed, and is retried later", *runs, exc_info=error)

    def _look(self, rules: KeepRules) -> None:
        begun = Run.remains.exclude(pk__in=self._failed).order_by("pk")
        self._begun = list(begun.values_list("pk", flat=True)[:RUNS_PER_QUERY])
        if rules and not self._begun:
            self._picked = pick(rules, self._after)
            self._after = self._picked[-1].at if self._picked else None

    def _next(self) -> list[OldRun]:
        """Return the first of what was picked, as many as fit into a batch but at least one, and pick them no more."""
        total = list(accumulate(one.rows for one in self._picked))
        count = 1 if self._singly else max(1, bisect_right(total, self._size.rows))
        self._singly = max(0, self._singly - 1)
        found, self._picked = self._picked[:count], self._picked[count:]
        return found


def pick(rules: KeepRules, after: Ending | None = None, limit: int = RUNS_PER_QUERY) -> list[OldRun]:
    """Return the next runs that may go, the one that ended first first. Reads alone."""
    runs = in_order(old_runs(rules, database_now()), after)
    return [_candidate(run) for run in free_to_go(runs).only("id", *VERSION)[:limit]]


VERSION = ("phase", "finished", "seq", "n", "epoch", "updated")
"""Columns of which one changes with whatever is done to a run. As long as none does, it is as old as it was."""


def _candidate(run: Run) -> OldRun:
    at = Ending(finished=run.finished, run=run.pk)
    return OldRun(at=at, version=_version(run), rows=run.seq + run.n + ROWS_BESIDE)


def _version(run: Run) -> tuple[Any, ...]:
    return tuple(getattr(run, name) for name in VERSION)


def remove(found: Sequence[OldRun], rules: KeepRules, *, in_parts: bool = False) -> RemovedBatch:
    """Remove these runs, in one transaction with its audit entry, but for those that something keeps now.

    Where there is an archive they are in it before; one that cannot be written there stays. ``in_parts``: of a single
    one most rows are left to ``remove_rest``.
    """
    versions, facts = {one.at.run: one.version for one in found}, dict[str, Any]()
    if settings.WFDASH_ARCHIVE:
        facts["archive"], archived = archive_runs(Path(settings.WFDASH_ARCHIVE), list(versions), database_now())
        versions = {run: versions[run] for run in archived}
    rows = Run.objects.filter(pk__in=versions).order_by().only("id", *VERSION).select_for_update(skip_locked=True)
    free = free_to_go(Run.objects.filter(pk__in=versions)).values_list("pk", flat=True)
    with write():
        began = time.monotonic()  # The wait for other writers is not its own.
        same = {run.pk for run in rows if _version(run) == versions[run.pk]}
        # Only now, in a statement of its own: it sees what those have written who had the locks before.
        runs = sorted(same.intersection(free), key=list(versions).index) if same else []
        removed = RemovedRuns()
        if runs:
            removed = begin_removal(alias(), *runs) if in_parts else remove_locked(alias(), runs)
            counts = {name: removed.counts.get(f"checkpoints.{model}", 0) for name, model in COUNTED.items()}
            facts |= {"runs": runs, "days": rules.as_json(), **counts}
            audit.record(None, VERB, facts=facts, right="retention", actor=audit.MACHINE)
    seconds = time.monotonic() - began
    drop_content(removed.relatives)
    return RemovedBatch(runs=runs, rows=removed.rows, seconds=seconds, last=False)


def remove_rest(run: str, rows: int) -> RemovedBatch:
    """Delete at most so many rows of what is left of a run; ``last``: nothing is, or another worker has it."""
    with write():
        began = time.monotonic()
        free = Run.remains.filter(pk=run).order_by().select_for_update(skip_locked=True).values_list("pk", flat=True)
        part = remove_part(alias(), run, rows) if list(free) else RemovedPart(rows=0, last=True)
    seconds = time.monotonic() - began
    drop_content(part.relatives)
    return RemovedBatch(rows=part.rows, seconds=seconds, last=part.last)


# The archive: runs that are about to be removed, as JSON lines in a folder, one file a day.

FORMAT = "wfdash-run/1"
OWNER_ONLY = 0o600
NEWLINE = b"\n"
INTERNAL = frozenset(
    {"epoch", "attempts", "wake_at", "retry", "for_workers", "priority", "ready_at", "noted", "listed", "alarm", "told"}
    | {"settles", "stuck", "subject", "start_key", "ending", "ending_as", "run", "request"}
)
"""Fields that mean something to a running installation alone, or say where a row is, which its place in a line does."""
ROWS: Mapping[str, type[Model]] = {"events": Event, "effects": Effect, "signals": Signal, "requests": HumanRequest}
OF_REQUESTS: Mapping[str, type[Model]] = {"answer": Answer, "replies": Reply, "comments": Comment}


def archive_runs(folder: Path, ids: Sequence[str], now: datetime) -> tuple[str, list[str]]:
    """Write these runs to the day's file and return its name and which of them are in it: on the disk, once this
    returns.

    One that cannot be read with the present keys is left out, and logged. ``OSError`` if the folder takes nothing.
    """
    path, written = folder / f"runs-{now:%Y-%m-%d}.jsonl", list[str]()
    with _opened(path) as file:
        for run, line in lines_of(ids, now):
            file.write(line + NEWLINE)
            written.append(run)
    return path.name, written


def lines_of(ids: Sequence[str], now: datetime) -> Iterator[tuple[str, bytes]]:
    """Yield each run that can be read, with its line."""
    parts = {name: _by_owner(model, "run_id", ids) for name, model in ROWS.items()}
    requests = [row.pk for rows in parts["requests"].values() for row in rows]
    parts |= {name: _by_owner(model, "request_id", requests) for name, model in OF_REQUESTS.items()}
    tags = _by_owner(RunFact, "run_id", ids, name=TAG)
    runs = list(Run.objects.filter(pk__in=ids).order_by("finished", "id"))
    people = _names([*runs, *(row for rows in parts.values() for some in rows.values() for row in some)])
    for run in runs:
        try:
            content = _content(run, parts, people) | {"tags": sorted(fact.text for fact in tags[run.pk])}
        except Unreadable as error:
            log.error("Run %s stays: it cannot be archived: %s", run.pk, error)
            continue
        yield run.pk, _line(run, content, now)


def _line(run: Run, content: dict[str, Any], now: datetime) -> bytes:
    text = json.dumps(content, default=str)
    stored = current_encryptor().encrypt(text, "archive", run.pk)
    about = {"format": FORMAT, "run": run.pk, "workflow": run.workflow, "finished": run.finished, "archived": now}
    given = json.dumps(about, default=text_of)[:-1]
    # What is not encrypted is JSON already.
    return f'{given}, "content": {text if stored == text else json.dumps(stored)}}}'.encode()


def _content(run: Run, parts: Mapping[str, Mapping[str, list[Any]]], people: Mapping[Any, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"run": _row(run, people)}
    for name in ROWS:
        found[name] = [_row(row, people) for row in parts[name][run.pk]]
    for request in found["requests"]:
        for name in OF_REQUESTS:
            request[name] = [_row(row, people) for row in parts[name][request["id"]]]
        request["answer"] = request["answer"][0] if request["answer"] else None
    rows = list(Checkpoint.objects.filter(run=run).order_by("n").defer("body"))
    found["checkpoints"] = [info_of(row).model_dump(mode="json", exclude={"run"}) for row in rows]
    return found | _state(run, rows)


def _state(run: Run, rows: Sequence[Checkpoint]) -> dict[str, Any]:
    """Return the content of the newest checkpoint, or why there is none."""
    if not rows:
        return {"body": None}
    last = rows[-1]
    last.run = run
    try:
        return {"body": read_row(last).body}
    except Locked:
        raise
    except CheckpointsError as error:
        return {"body": None, "problem": str(error)}


def _by_owner(model: type[Model], owner: str, ids: Sequence[str], **given: Any) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    rows: Any = model._default_manager.filter(**{f"{owner}__in": ids}, **given).order_by("pk")
    for row in rows:
        found[getattr(row, owner)].append(row)
    return found


def _names(rows: Sequence[Model]) -> dict[Any, str]:
    """Return what the people are called whom these rows name."""
    keys = {
        getattr(row, field.attname)
        for row in rows
        for field in row._meta.concrete_fields
        if field.related_model is User
    }
    return {user.pk: user.get_username() for user in User.objects.filter(pk__in=keys - {None})}


def _row(row: Model, people: Mapping[Any, str]) -> dict[str, Any]:
    fields = [field for field in row._meta.concrete_fields if field.name not in INTERNAL]
    return {field.name: _value(row, field, people) for field in fields}


def _value(row: Model, field: Field[Any, Any], people: Mapping[Any, str]) -> Any:
    value = getattr(row, field.attname)
    if field.related_model is User:
        return people.get(value)
    return text_of(value) if isinstance(value, datetime) else value


def text_of(value: Any) -> str:
    """Return what is written of a value to a file of lines: of a moment as ISO 8601 has it."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for lines at its end, for this process alone; on return they are on the disk."""
    is_new = not path.exists()
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, OWNER_ONLY), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if (size := file.seek(0, os.SEEK_END)) and os.pread(file.fileno(), 1, size - 1) != NEWLINE:
            file.write(NEWLINE)  # A writer died within its last line, which no reader takes for one.
        yield file
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_archive(paths: Iterable[Path], run: str = "") -> Iterator[dict[str, Any]]:
    """Yield the archived runs in these files, or one of them, decrypted. ``ValueError`` for a line of another format;
    the torn end that a writer left when it died is passed over.
    """
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                found = _read_line(line, f"{path}, line {number}")
                if found and run in {"", found["run"]}:
                    yield {**found, "content": _decrypted(found)}


def _read_line(line: bytes, place: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        log.warning("%s is incomplete: its run was not removed then, and has another line if it was later", place)
        return None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{place} is no archived run of the format {FORMAT}")
    return found


def _decrypted(found: Mapping[str, Any]) -> Any:
    content = found["content"]
    if not isinstance(content, str):
        return content
    return json.loads(current_encryptor().decrypt(content, "archive", found["run"]))

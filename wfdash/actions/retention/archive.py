"""The archive: runs that are about to be removed, as JSON lines in a folder, one file a day.

A line is on the disk before its run is removed. One that was written for a run that then stayed, because someone opened
it or the worker died, does no harm: the run has another line when it goes, and the last one of an id counts.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from django.db.models import Field, Model

from checkpoints.content.encryption import Locked
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import CheckpointsError, Damaged
from checkpoints.models import Answer, Checkpoint, Comment, Effect, Event, HumanRequest, Reply, Run, RunFact, Signal
from checkpoints.models.fields import current_encryptor
from checkpoints.models.user_model import User
from wfdash.domain.search_attributes import TAG

log = logging.getLogger(__name__)

FORMAT = "wfdash-run/1"
PRIVATE = 0o600
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
        except (Locked, Damaged) as error:
            log.error("Run %s stays: it cannot be archived: %s", run.pk, error)
            continue
        yield run.pk, _line(run, content, now)


def _line(run: Run, content: dict[str, Any], now: datetime) -> bytes:
    text = json.dumps(content, default=str)
    stored = current_encryptor().encrypt(text, "archive", run.pk)
    about = {"format": FORMAT, "run": run.pk, "workflow": run.workflow, "finished": run.finished, "archived": now}
    given = json.dumps(about, default=_moment)[:-1]
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
    keys = {getattr(row, field.attname) for row in rows for field in _people_in(type(row))}
    return {user.pk: user.get_username() for user in User.objects.filter(pk__in=keys - {None})}


def _people_in(model: type[Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if field.related_model is User]


def _row(row: Model, people: Mapping[Any, str]) -> dict[str, Any]:
    fields = [field for field in row._meta.concrete_fields if field.name not in INTERNAL]
    return {field.name: _value(row, field, people) for field in fields}


def _value(row: Model, field: Field[Any, Any], people: Mapping[Any, str]) -> Any:
    value = getattr(row, field.attname)
    if field.related_model is User:
        return people.get(value)
    return _moment(value) if isinstance(value, datetime) else value


def _moment(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for lines at its end, for this process alone; on return they are on the disk."""
    is_new = not path.exists()
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if (size := file.seek(0, os.SEEK_END)) and os.pread(file.fileno(), 1, size - 1) != NEWLINE:
            file.write(NEWLINE)  # A writer died within its last line, which no reader takes for one.
        yield file
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
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

"""Dies at every point where random kills are too rare: each a real process, forked, that ends with ``os._exit``.

A *point* is a place and a count: ``("commit", "before", 3)`` ends the process just before its third commit.
Patches live here, in the test's own processes; the product has no failpoints.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults import plays
from tests.faults.ledger import write_line

KILLED = 137
LIMIT = 60
"""Points of one kind at most: a run that never gets past them would go on for ever."""


class Fuse:
    """Ends the process when it has been passed ``count`` times."""

    def __init__(self, count: int, note: Callable[[str], None]) -> None:
        self._left = count
        self._note = note

    def passed(self, label: str) -> None:
        """Count one; at the last one note where it was and die."""
        self._left -= 1
        if self._left == 0:
            self._note(label)
            os._exit(KILLED)


def arm_commit_before(fuse: Fuse) -> None:
    _wrap_commit(before=fuse)


def arm_commit_after(fuse: Fuse) -> None:
    _wrap_commit(after=fuse)


def _wrap_commit(before: Fuse | None = None, after: Fuse | None = None) -> None:
    from checkpoints.orm import DatabaseStorage

    plain = DatabaseStorage.commit

    async def commit(self: DatabaseStorage, commit: Any, *, claim: Any = None) -> int:
        if before is not None:
            before.passed(label_of(commit))
        seq = await plain(self, commit, claim=claim)
        if after is not None:
            after.passed(label_of(commit))
        return seq

    DatabaseStorage.commit = commit  # type: ignore[method-assign]


def label_of(commit: Any) -> str:
    """Name a commit by what it is for."""
    if commit.standing is not None:
        return f"standing {commit.standing.phase.value}"
    if commit.effects:
        return f"call {commit.effects[0].state}"
    if commit.opened:
        return "request opened"
    return commit.checkpoint.reason.value if commit.checkpoint else "events"


def arm_transaction_inside(fuse: Fuse) -> None:
    """Everything is written and only SQLite's COMMIT is missing: commits, claims and releases alike."""
    from checkpoints import sqlite

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                fuse.passed("a transaction of the writer")
            return super().execute(sql, *parameters)

    plain = sqlite3.connect
    patched = type("Patched", (), {"__getattr__": lambda self, name: getattr(sqlite3, name)})()
    patched.connect = lambda path, **given: plain(path, **given, factory=Dying)
    sqlite.sqlite3 = patched  # type: ignore[misc,assignment]


def arm_effect_before(fuse: Fuse) -> None:
    _wrap_effect(before=fuse)


def arm_effect_after(fuse: Fuse) -> None:
    _wrap_effect(after=fuse)


def _wrap_effect(before: Fuse | None = None, after: Fuse | None = None) -> None:
    from wfdash import catalog

    catalog.load()
    module = next(m for name, m in sys.modules.items() if name.startswith("wfdash_served_graphs"))

    def write(path: str, **facts: Any) -> None:
        counted = facts["kind"] != "begin"
        if before is not None and counted:
            before.passed(f"{facts['kind']}: not yet happened")
        write_line(path, **facts)
        if after is not None and counted:
            after.passed(f"{facts['kind']}: happened, result not recorded")

    module.write_line = write  # type: ignore[attr-defined]


def arm_verb_inside(fuse: Fuse) -> None:
    _wrap_verbs(inside=fuse)


def arm_verb_after(fuse: Fuse) -> None:
    _wrap_verbs(after=fuse)


def _wrap_verbs(inside: Fuse | None = None, after: Fuse | None = None) -> None:
    """Die in a verb's transaction, or after its commit and before anybody has heard of it."""
    from wfdash.desk import requests, runs

    for module, label in ((requests, "answer"), (runs, "start")):
        module.write = _dying_write(label, inside, after)  # type: ignore[attr-defined]


def _dying_write(label: str, inside: Fuse | None, after: Fuse | None) -> Callable[[], Any]:
    from checkpoints.orm import write

    @contextlib.contextmanager
    def dying() -> Iterator[None]:
        with write():
            yield
            if inside is not None:
                inside.passed(f"{label}: in its transaction")
        if after is not None:
            after.passed(f"{label}: committed, not acknowledged")

    return dying


ARMS: dict[str, Callable[[Fuse], None]] = {
    "commit before": arm_commit_before,
    "commit after": arm_commit_after,
    "transaction inside": arm_transaction_inside,
    "effect before": arm_effect_before,
    "effect after": arm_effect_after,
    "verb inside": arm_verb_inside,
    "verb after": arm_verb_after,
}


def fail_everywhere(folder: str, workflows: list[str], ledger: str) -> list[dict[str, Any]]:
    """Die at every point of every kind in a run of each workflow, and let another process go on each time.

    Returns, for every point, its kind, count, label, the run and the phase it came to.
    """
    from django.db import connections

    # Imported once here, not in every fork.
    from wfdash import catalog, desk  # noqa: F401
    from wfdash.runner import verbs, worker  # noqa: F401

    catalog.load()
    verbs.load_verbs()
    plays.admin()
    connections.close_all()
    kinds = [kind for kind in ARMS if kind != "transaction inside" or connections["default"].vendor == "sqlite"]
    return [
        point
        for workflow in workflows
        for kind in kinds
        for point in _fail_at_each(Path(folder), workflow, kind, ledger)
    ]


def _fail_at_each(folder: Path, workflow: str, kind: str, ledger: str) -> Iterator[dict[str, Any]]:
    for count in range(1, LIMIT):
        key, note = f"{workflow} {kind} {count}", folder / f"{workflow}-{kind}-{count}.txt"
        facts = {"workflow": workflow, "ledger": ledger, "key": key, "acks": str(folder / "acks.jsonl")}
        first = _in_a_fork(lambda: _live(**facts, arm=lambda: ARMS[kind](Fuse(count, note.write_text))))  # noqa: B023
        if first == 0:
            return
        second = _in_a_fork(lambda: _live(**facts))  # noqa: B023
        label = note.read_text() if note.exists() else ""
        yield {"workflow": workflow, "kind": kind, "count": count, "label": label, "died": first, "went on": second}


def _live(*, workflow: str, ledger: str, key: str, acks: str, arm: Callable[[], None] = lambda: None) -> None:
    arm()
    run = plays.start(workflow, 1, ledger, key)
    write_line(acks, key=key, run=run)
    if plays.live_through([run], ledger, acks) != ["completed"]:
        os._exit(3)


def _in_a_fork(act: Callable[[], None]) -> int:
    """Run something in a process of its own and return its exit status."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        act()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    os._exit(0)

"""Dies at every point where random kills are too rare: each a real process, forked, that ends with ``os._exit``.

A *point* is a kind, a label and a count: ``("commit before", "step", 3)`` ends the process just before its third
commit of a step. A first run, which does not die, counts what there is to die at.
Patches live here, in the test's own processes; the product has no failpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import plays
from tests.faults.ledger import write_line

KILLED = 137


class Fuse(ABC):
    """What every point tells that it is passed, by its label."""

    @abstractmethod
    def passed(self, label: str) -> None:
        """Take note of one pass."""


class Counting(Fuse):
    """Counts the passes of each label and harms nothing."""

    def __init__(self) -> None:
        self.passes: Counter[str] = Counter()

    def passed(self, label: str) -> None:
        self.passes[label] += 1


class Deadly(Fuse):
    """Ends the process when a label is passed for the ``count``th time."""

    def __init__(self, label: str, count: int) -> None:
        self._label = label
        self._left = count

    def passed(self, label: str) -> None:
        self._left -= label == self._label
        if self._left == 0:
            os._exit(KILLED)


def arm_commit_before(fuse: Fuse) -> None:
    _wrap_commit(before=fuse)


def arm_commit_after(fuse: Fuse) -> None:
    _wrap_commit(after=fuse)


def _wrap_commit(before: Fuse | None = None, after: Fuse | None = None) -> None:
    from checkpoints.database.storage import DatabaseStorage

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
    from checkpoints.sql import sqlite

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
    # As catalogues import a file of a package: by its name. Its functions look this one up.
    from tests.faults import graphs

    plain = graphs.write_line

    def write(path: str, **facts: Any) -> None:
        counted = facts["kind"] != "begin"
        if before is not None and counted:
            before.passed(f"{facts['kind']}: not yet happened")
        plain(path, **facts)
        if after is not None and counted:
            after.passed(f"{facts['kind']}: happened, result not recorded")

    graphs.write_line = write


def arm_verb_inside(fuse: Fuse) -> None:
    _wrap_verbs(inside=fuse)


def arm_verb_after(fuse: Fuse) -> None:
    _wrap_verbs(after=fuse)


def _wrap_verbs(inside: Fuse | None = None, after: Fuse | None = None) -> None:
    """Die in a verb's transaction, or after its commit and before anyone has heard of it."""
    from wfdash.actions.requests import answer
    from wfdash.actions.runs import lifecycle

    for module, label in ((answer, "answer"), (lifecycle, "start")):
        module.write = _dying_write(module.write, label, inside, after)  # type: ignore[attr-defined]


def _dying_write(plain: Callable[[], Any], label: str, inside: Fuse | None, after: Fuse | None) -> Callable[[], Any]:
    @contextlib.contextmanager
    def dying() -> Iterator[None]:
        with plain():
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


@dataclass(frozen=True, kw_only=True)
class Play:
    """A run of one workflow that is to be lived through, and where its processes write what they saw."""

    workflow: str
    ledger: str
    folder: Path

    @property
    def acks(self) -> str:
        """The file of what processes were promised."""
        return str(self.folder / "acks.jsonl")

    def live(self, key: str) -> None:
        """Start the run, or go on with the one of this key, and bring it to its end."""
        run = plays.start(self.workflow, 1, self.ledger, key)
        write_line(self.acks, key=key, run=run)
        if plays.live_through([run], self.ledger, self.acks) != ["completed"]:
            os._exit(3)


def fail_everywhere(folder: str, workflows: list[str], ledger: str, most: int | None = None) -> list[dict[str, Any]]:
    """Die at the points of every kind in a run of each workflow, and let another process go on each time.

    ``most``: at so many of the points with one label, the first and the last among them; at all of them without.
    Returns the kind, label and count of every point, and how the process that died and the next one ended.
    """
    from django.db import connections

    from wfdash.actions.requests import answer  # noqa: F401
    from wfdash.actions.runs import lifecycle  # noqa: F401

    # Imported and derived once here, not in every fork.
    from wfdash.engines import catalog
    from wfdash.worker import worker  # noqa: F401

    for workflow in workflows:
        catalog.secrets_of(workflow)
    plays.admin()
    connections.close_all()
    kinds = [kind for kind in ARMS if kind != "transaction inside" or connections["default"].vendor == "sqlite"]
    plays_of = [Play(workflow=workflow, ledger=ledger, folder=Path(folder)) for workflow in workflows]
    return [point for play in plays_of for point in _fail_at_each(play, kinds, most)]


def _fail_at_each(play: Play, kinds: list[str], most: int | None) -> Iterator[dict[str, Any]]:
    counted = _count(play, kinds)
    labels = [(kind, *one) for kind, passes in counted.items() for one in passes.items()]
    for place, (kind, label, passes) in enumerate(labels):
        for count in spread(passes, most or passes):
            key = f"{play.workflow} {place} {count}"
            died = in_a_fork(lambda: _die(play, kind, key, Deadly(label, count)))  # noqa: B023
            if died == 0 and count > 1:
                # How many transactions there are depends on who shares one: this run had fewer of them.
                continue
            went_on = in_a_fork(lambda: play.live(key))  # noqa: B023
            yield {"kind": kind, "label": label, "count": count, "died": died, "went on": went_on}


def _count(play: Play, kinds: list[str]) -> dict[str, dict[str, int]]:
    """Return how often a run passes the points of each kind, by label."""
    note = play.folder / "passes.json"

    def count() -> None:
        fuses = {kind: Counting() for kind in kinds}
        for kind, fuse in fuses.items():
            ARMS[kind](fuse)
        play.live(play.workflow)
        note.write_text(json.dumps({kind: fuse.passes for kind, fuse in fuses.items()}))

    if status := in_a_fork(count):
        raise AssertionError(f"a run of {play.workflow} that was not to die ended with {status}")
    return dict(json.loads(note.read_text()))


def _die(play: Play, kind: str, key: str, fuse: Fuse) -> None:
    ARMS[kind](fuse)
    play.live(key)


def spread(passes: int, most: int) -> list[int]:
    """Return at most so many of the numbers from 1 to ``passes``, evenly spread from the first to the last."""
    if most >= passes:
        return list(range(1, passes + 1))
    return sorted({1 + round(place * (passes - 1) / max(1, most - 1)) for place in range(most)})


def in_a_fork(act: Callable[[], None]) -> int:
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

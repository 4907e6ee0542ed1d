"""The bench: the dashboard's actions, jobs and drive, called one after the other, and a clock that a test moves."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar
from unittest import mock

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models.functions import Now
from django.db.utils import ConnectionHandler
from django.utils import timezone

from checkpoints.claims import ClaimRenewer, boottime
from checkpoints.database.alias import alias, connection
from checkpoints.database.runs import info_of, read_row
from checkpoints.database.storage import DatabaseStorage, scripts_for
from checkpoints.ids import RequestKey, RunId
from checkpoints.models import OPEN, Checkpoint, Claim, Grant, HumanRequest, Reply, Run
from checkpoints.models import Event as EventRow
from checkpoints.records import CheckpointInfo, Commit, ErrorInfo, Event, Phase, frozen, status_of
from checkpoints.rules import TIMED
from checkpoints.sql import sqlite
from checkpoints.sql.durability import Durability
from checkpoints.sql.sqlite import SqliteDatabase
from checkpoints.sql.statements import SQLITE
from checkpoints.sql.writes import Database
from wfdash.access.directory import vote_progress, votes_of
from wfdash.access.viewer import EVERY, RIGHTS, Viewer, viewer_for
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.requests.deadlines import next_alarm
from wfdash.actions.requests.finalize import next_finalization
from wfdash.actions.runs.lifecycle import cancel_run, follow_up, pause_run, resume_run, retry_run, start_run
from wfdash.actions.runs.signals import send_signal
from wfdash.actions.schedules import SchedulePlan, create_schedule, next_firing
from wfdash.contract import Edits
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog
from wfdash.engines.catalog import load_engines
from wfdash.questions.policy import Duration, span_of
from wfdash.testing.records import BenchRequest, BenchRun, Call, VoteCount, as_json, written_out
from wfdash.testing.sqlite.base import clock, opened
from wfdash.worker import sweeps
from wfdash.worker.drive import ClaimedRecorder, advance
from wfdash.workflow import Workflow
from wfdash.workflow.runtime.invoke import calls_replaced

ENGINE = "wfdash.testing.sqlite"
MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of its own is made there)
OPTIONS = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL;"}
_numbers = itertools.count(1)
_in_use: list[str] = []


class Redirected(ConnectionHandler):
    """Django's connections while a bench is open: the default database and wfdash's are its one, in every thread."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(_in_use[-1] if _in_use and name in {DEFAULT_DB_ALIAS, alias()} else name)


@contextmanager
def own_database(folder: Path) -> Iterator[None]:
    """Put a new database in the place of the default one, and of wfdash's. Call it outside of event loops."""
    file = folder / "bench.sqlite3"
    shutil.copy(template(), file)
    with redirected(file):
        yield


@contextmanager
def redirected(file: Path) -> Iterator[None]:
    """Let the default database, and wfdash's, be this file, as long as it is open."""
    name = f"wfdash bench {next(_numbers)}"
    connections.settings[name] = {"ENGINE": ENGINE, "NAME": str(file), "OPTIONS": OPTIONS}
    connections.configure_settings(connections.settings)
    usual = type(connections)
    connections.__class__ = Redirected
    _in_use.append(name)
    try:
        yield
    finally:
        connections[name].close()
        _in_use.remove(name)
        while opened:
            opened.pop().close()
        connections.__class__ = usual
        del connections.settings[name]


def new_folder() -> Path:
    """Return a new folder, in memory where that can be had."""
    return Path(tempfile.mkdtemp(prefix="wfdash-bench-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))


@lru_cache(maxsize=1)
def template() -> Path:
    """Return a file with the tables of all installed apps, made once per process and removed with it."""
    import atexit

    folder = new_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "template.sqlite3"
    with redirected(file):
        _create_tables()
    return file


def _create_tables() -> None:
    """Create what migrations lead to, without their history: that takes seconds."""
    from checkpoints.models import AuditHead
    from checkpoints.models.fields import current_keyring

    with connection().schema_editor() as editor:
        for model in apps.get_models():
            if model._meta.managed and not model._meta.proxy and not model._meta.swapped:
                editor.create_model(model)
    AuditHead.objects.get_or_create(pk=1, defaults={"signature": current_keyring().sign("head", "0", "")})
    with connection().cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class BenchStorage(DatabaseStorage):
    """The dashboard's storage, by the bench's clock. After the clock was moved, ``await follow_clock()``."""

    def _open(self) -> Database:
        now, later = (text.replace("'now'", f"'now','{clock.modifier}'") for text in (SQLITE.now, SQLITE.later))
        scripts = scripts_for(replace(SQLITE, now=now, later=later), self.encryptor)
        path = str(connection().settings_dict["NAME"])
        return SqliteDatabase(path, scripts, sqlite.write_lock, durability=Durability.RELAXED)

    async def take_turn(self, name: str, every: float) -> float:
        """Take the turn without waiting: a test has no other processes, and its clock stands still."""
        return 0

    async def follow_clock(self) -> None:
        """Open the database again, with the time as it is now."""
        await self.aclose()
        await self.look()


_open: list[Bench] = []


class Bench:
    """A dashboard for one test. Every awaited action returns once no run can continue by itself.

    What a person may not do is refused with the error that pages and API give: ``NotAllowed``, ``NotFound``,
    ``Invalid``, ``AlreadyAnswered``, ``NoLongerOpen``, ``WrongState``. Where ``by`` is left out, the bench itself does
    it, as an operator who is no reviewer.
    """

    def __init__(self, workflows: tuple[Workflow, ...], cast: Cast) -> None:
        if not workflows:
            raise ValueError("bench() needs a workflow")
        self._workflows, self._cast = workflows, cast
        self._catalog = catalog_of(workflows)
        self._runs: dict[str, BenchRun] = {}
        self._closing = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        return self.open()

    async def __aexit__(self, kind: object, error: object, _: object) -> None:
        unused = [crash.call for crash in self._driver.crashes] if error is None else []
        self.close()
        if unused:
            made = ", ".join(dict.fromkeys(call.name for call in self._driver.calls)) or "none"
            raise LookupError(f"crash_after({unused[0]!r}): no call of that name was recorded after it; calls: {made}")

    def open(self) -> Self:
        """Make database and people; ``async with`` does this. ``RuntimeError`` while another bench is open."""
        if _open:
            raise RuntimeError("Another bench is open: give one bench all workflows, bench(first, second)")
        with contextlib.ExitStack() as stack:
            folder = new_folder()
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(mock.patch.object(clock, "moved", timedelta()))
            stack.enter_context(mock.patch.object(timezone, "now", clock.now))
            stack.enter_context(mock.patch.object(catalog, "load", return_value=self._catalog))
            self._thread = stack.enter_context(contextlib.closing(OrmThread()))
            stack.enter_context(self._thread.within(own_database(folder)))
            self._thread.wait(self._cast.make)
            self._storage = BenchStorage()
            stack.callback(self._storage.close)
            self._driver = stack.enter_context(contextlib.closing(Driver(self._storage)))
            _open.append(self)
            stack.callback(_open.remove, self)
            self._closing = stack.pop_all()
        return self

    def close(self) -> None:
        """Remove the database and give Django its own back; ``async with`` does this."""
        self._closing.close()

    @property
    def now(self) -> datetime:
        """Return the bench's time."""
        return clock.now()

    @property
    def calls(self) -> list[Call]:
        """Return every ``ctx.call`` that really happened, in order: replayed ones are not there."""
        return list(self._driver.calls)

    @property
    def runs(self) -> list[BenchRun]:
        """Return all runs, the oldest first: those of schedules, too."""
        return list(self._runs.values())

    # -- what people and programs do

    async def start(self, message: Any = None, *, by: str = "", workflow: Workflow | str = "") -> BenchRun:
        """Start a run and return it. ``workflow``: which, if the bench has several."""
        given, name = as_json(message), self._named(workflow)
        with saying_what():
            row = await self._thread.call(lambda: start_run(self._viewer(by), name, given))
        return await self._settled(row.pk)

    async def follow_up(self, run: BenchRun, message: Any, *, by: str = "") -> BenchRun:
        """Send a completed run its next message, and return the run that follows it."""
        given = as_json(message)
        with saying_what():
            row = await self._thread.call(lambda: follow_up(self._viewer(by), run.id, given))
        return await self._settled(row.pk)

    async def answer(
        self,
        target: BenchRun | BenchRequest,
        value: Any = None,
        *,
        by: str,
        override: bool = False,
        on_behalf_of: str = "",
        undo: bool = False,
        as_text: bool = False,
        **fields: Any,
    ) -> VoteCount:
        """Answer a request, or a run's only one, as this person: ``t.answer(run, "reject", by="ana", reason="no")``.

        ``value``: the name of an action with its fields beside it, or the answer itself. ``override``,
        ``on_behalf_of``: what operators may. ``undo``: as on a page, where it takes effect after the time to undo it.
        ``as_text``: a text that reads like yes or no is meant as text, where the question does not say what it takes.
        """
        request = target.request if isinstance(target, BenchRun) else target
        sent = written_out(request.answer_schema, value, fields)
        options: dict[str, Any] = {"override": override, "on_behalf_of": on_behalf_of, "undo": undo}
        options["as_text"] = as_text

        def act() -> VoteCount:
            reply = answer_request(self._viewer(by), request.id, sent, via="bench", **options)
            votes, need, decided = vote_progress(Reply.objects.select_related("request").get(pk=reply.pk))
            return VoteCount(votes=votes, need=need, decided=decided)

        with saying_what():
            vote = await self._thread.call(act)
        await self._settle()
        return vote

    async def undo(self, target: BenchRun | BenchRequest, *, by: str) -> None:
        """Undo this person's answer, or take their vote back."""
        request = target.request if isinstance(target, BenchRun) else target
        await self._act(lambda: undo_answer(self._viewer(by), request.id))

    async def signal(self, run: BenchRun, name: str, value: Any = None, *, by: str = "") -> None:
        """Send a signal to a run."""
        given = as_json(value)
        await self._act(lambda: send_signal(self._viewer(by), run.id, name, given))

    async def restore(
        self, run: BenchRun, checkpoint: CheckpointInfo, *, edits: Edits | None = None, by: str = ""
    ) -> None:
        """Restore a run to one of its checkpoints, with or without edits."""
        await self._act(lambda: restore_run(self._viewer(by), run.id, checkpoint.id, edits=edits))

    async def fork(
        self, run: BenchRun, checkpoint: CheckpointInfo, *, edits: Edits | None = None, by: str = ""
    ) -> BenchRun:
        """Start a new run from a checkpoint and return it."""
        row = await self._thread.call(lambda: fork_run(self._viewer(by), run.id, checkpoint.id, edits=edits))
        return await self._settled(row.pk)

    async def retry(self, run: BenchRun, *, by: str = "") -> None:
        """Retry a failed run."""
        await self._act(lambda: retry_run(self._viewer(by), run.id))

    async def cancel(self, run: BenchRun, *, by: str = "") -> None:
        """Cancel a run."""
        await self._act(lambda: cancel_run(self._viewer(by), run.id))

    async def pause(self, run: BenchRun, *, by: str = "") -> None:
        """Pause a run."""
        await self._act(lambda: pause_run(self._viewer(by), run.id))

    async def resume(self, run: BenchRun, *, by: str = "") -> None:
        """Resume a paused run."""
        await self._act(lambda: resume_run(self._viewer(by), run.id))

    async def schedule(
        self, cron: str, message: Any = None, *, by: str, zone: str = "UTC", workflow: Workflow | str = ""
    ) -> None:
        """Let a schedule start runs on behalf of this person, who must be an operator: ``advance`` fires it."""
        plan = SchedulePlan(name=f"{cron} {zone}", cron=cron, zone=zone, message=as_json(message))
        name = self._named(workflow)
        await self._act(lambda: create_schedule(self._viewer(by), name, plan))

    # -- what a test does to the world

    async def advance(self, duration: Duration) -> None:
        """Move time on: ``"4h"``, ``"1d 12h"``, seconds or a timedelta.

        Sleeps end, and reminders, escalations, deadlines, schedules and retries happen in their order, each at its own
        time.
        """
        until = clock.now() + span_of(duration)
        while (at := await self._thread.call(next_moment, clock.now(), until)) is not None:
            await self._move_to(at)
        await self._move_to(until)

    def replace(self, name: str, function: Callable[..., Any]) -> None:
        """Let every ``ctx.call`` of this name call another function: by default the name of its own function."""
        self._driver.replaced[name] = function

    def crash_after(self, name: str, *, recorded: bool = True) -> None:
        """Let the worker's process die once, after the next call of this name; another worker then continues the run.

        ``recorded=False``: it dies between the call and its record, so that no one knows whether it happened.
        """
        self._driver.crashes.append(Crash(call=name, recorded=recorded))

    # -- inside

    def _viewer(self, name: str) -> Viewer:
        return self._cast.viewer(name)

    def _named(self, workflow: Workflow | str) -> str:
        if not workflow and len(self._workflows) > 1:
            known = ", ".join(one.name for one in self._workflows)
            raise ValueError(f"this bench has several workflows, say which with workflow=: {known}")
        chosen = workflow or self._workflows[0]
        return chosen.name if isinstance(chosen, Workflow) else chosen

    async def _act(self, action: Callable[[], object]) -> None:
        with saying_what():
            await self._thread.call(action)
        await self._settle()

    async def _move_to(self, at: datetime) -> None:
        clock.move_to(at)
        await self._storage.follow_clock()
        await self._settle()

    async def _settled(self, run_id: str) -> BenchRun:
        await self._settle()
        return self._runs[run_id]

    async def _settle(self) -> None:
        """Do all that is due now, until nothing is."""
        while True:
            await self._thread.call(_sweep)
            if not await self._driver.drive_due():
                break
        await self._thread.call(self._refresh)

    def _refresh(self) -> None:
        for run_id in all_runs():
            run = self._runs.setdefault(run_id, BenchRun(id=run_id))
            refresh(run)


@contextlib.contextmanager
def saying_what() -> Iterator[None]:
    """Add to a refused value what is wrong with which field, as a note that pytest prints."""
    try:
        yield
    except Invalid as error:
        for one in error.errors:
            error.add_note(f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}")
        raise


def _sweep() -> None:
    """Do what a worker's jobs do each second."""
    while sweeps.sweep_deadlines() == 0.0 or sweeps.start_scheduled() == 0.0:
        continue


def catalog_of(workflows: tuple[Workflow, ...]) -> catalog.Catalog:
    """Return a catalogue of these. ``InvalidWorkflow``."""
    engines, _ = load_engines(settings.WFDASH_ENGINES)
    found = catalog.Catalog()
    for workflow in workflows:
        engine = next(engine for engine in engines if engine.accepts(workflow))
        described = engine.describe(workflow)
        found.entries[workflow.name] = catalog.Entry(
            name=workflow.name, definition=workflow, engine=engine, description=described, source="bench"
        )
    return found


# The people of a bench: made as rows, found as viewers.

STAGE = "bench"
"""Who starts runs and operates them where a test names no one. They answer nothing, so they count for no policy."""


@frozen
class Cast:
    """Everyone, with their groups and roles."""

    groups: Mapping[str, frozenset[str]]
    roles: Mapping[str, str]

    @classmethod
    def of(
        cls,
        people: Mapping[str, str | Iterable[str]] | Iterable[str],
        groups: Mapping[str, Iterable[str]],
        roles: Mapping[str, str],
    ) -> Cast:
        """Read what a test says. ``ValueError`` for a role that there is not, or a name that is taken."""
        named = (
            people
            if isinstance(people, Mapping)
            else dict.fromkeys([people] if isinstance(people, str) else people, ())
        )
        found = {name: {given} if isinstance(given, str) else set(given) for name, given in named.items()}
        for group, members in groups.items():
            for name in members:
                found.setdefault(name, set()).add(group)
        for name, role in roles.items():
            found.setdefault(name, set())
            if role not in RIGHTS:
                raise ValueError(f"{name}: no role named {role!r}; there are {', '.join(RIGHTS)}")
        if STAGE in found:
            raise ValueError(f"{STAGE!r} is the bench's own name: give this person another one")
        return cls(groups={name: frozenset(of) for name, of in found.items()}, roles=dict(roles))

    def make(self) -> None:
        """Write everyone into the database."""
        users = get_user_model()
        made = {name: _person(users, name) for name in (*self.groups, STAGE)}
        for name in sorted(frozenset[str]().union(*self.groups.values())):
            group = Group.objects.create(name=name)
            group.user_set.set([made[member] for member, of in self.groups.items() if name in of])
        Grant.objects.bulk_create(
            [Grant(user=made[name], role=self.roles.get(name, "reviewer"), workflow=EVERY) for name in self.groups]
        )

    def viewer(self, name: str) -> Viewer:
        """Return a person's rights as they are now; without a name the bench's own. ``ValueError`` for a stranger."""
        users: Any = get_user_model()
        if not name:
            own = viewer_for(users.objects.get_by_natural_key(STAGE))
            return replace(own, rights={EVERY: RIGHTS["operator"] - {"answer"}})
        if name not in self.groups:
            near = get_close_matches(name, self.groups, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Name them: bench(..., people=[{name!r}])."
            raise ValueError(f"There is no {name!r} in this bench.{hint}")
        return viewer_for(users.objects.get_by_natural_key(name))


def _person(users: Any, name: str) -> Any:
    user = users(**{users.USERNAME_FIELD: name})
    user.set_unusable_password()
    user.save()
    return user


# Drives a bench's runs as a worker does, until they park or end; a test may let the worker's process die.

TTL = 30.0
"""Seconds a claim lasts."""
DONE = "done"


class ProcessDied(BaseException):
    """The worker's process ends here."""


@frozen
class Crash:
    """Where it ends: as soon as this call has happened, before or after that was recorded."""

    call: str
    recorded: bool


class CrashingRecorder(ClaimedRecorder):
    """A worker's recorder whose process dies at the first commit that a crash names."""

    def __init__(self, crashes: list[Crash], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._crashes = crashes

    async def commit(self, commit: Commit) -> None:
        """Write a commit, unless the process dies before; ``ProcessDied``."""
        done = {effect.name for effect in commit.effects if effect.state == DONE}
        crash = next((one for one in self._crashes if one.call in done), None)
        if crash is not None:
            self._crashes.remove(crash)
            if crash.recorded:
                await super().commit(commit)
            raise ProcessDied
        await super().commit(commit)


class Driver:
    """One worker. ``calls``: what really happened; ``replaced``: call name -> what is called instead."""

    def __init__(self, storage: BenchStorage) -> None:
        self.calls: list[Call] = []
        self.replaced: dict[str, Callable[..., Any]] = {}
        self.crashes: list[Crash] = []
        self._storage = storage
        self._renewer = ClaimRenewer(storage, ttl=TTL)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """End the thread that renews claims."""
        self._renewer.close()

    async def drive_due(self) -> bool:
        """Drive every run that is due until it parks or ends. False if there is none."""
        due = await self._storage.due()
        driven = await asyncio.gather(*(self._drive(run) for run in due))
        return any(driven)

    async def _drive(self, run: RunId) -> bool:
        since, worker = boottime(), f"bench {next(self._numbers)}."
        claim = await self._storage.claim(run, worker=worker, ttl=TTL)
        if claim is None:
            return False
        facts = await self._storage.read_run(run)
        recorder = CrashingRecorder(self.crashes, self._storage, claim, facts.workflow, clock=self._storage.now)
        recorder.renewer = self._renewer
        try:
            with calls_replaced(self._chosen):
                await advance(self._storage, recorder, facts, self._renewer, since)
        except ProcessDied:
            # As the next process does when it starts: the one that had these claims is gone.
            await self._storage.expire_claims(worker_prefix=worker)
        return True

    def _chosen(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what a call of this name calls, noted when it does."""
        called = self.replaced.get(name, function)

        @wraps(called)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(Call(name=name, args=args, kwargs=kwargs))
            return called(*args, **kwargs)

        if inspect.iscoroutinefunction(called):

            @wraps(called)
            async def noted_async(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(Call(name=name, args=args, kwargs=kwargs))
                return await called(*args, **kwargs)

            return noted_async
        return noted


def all_runs() -> list[str]:
    """Return the ids of all runs, the oldest first."""
    return list(Run.objects.order_by("created", "id").values_list("id", flat=True))


def refresh(run: BenchRun) -> None:
    """Read everything of a run again."""
    row = Run.objects.get(pk=run.id)
    claims = Claim.objects.filter(run=row)
    live = claims.filter(expires__gt=Now()).exists()
    run.workflow, run.title, run.wakes = row.workflow, row.own_title or row.title, row.wake_at
    run.status = status_of(Phase(row.phase), claimed=claims.exists(), claim_live=live, acted_by=row.acted_by)
    run.output, run.error = row.output, ErrorInfo.model_validate(row.error) if row.error else None
    run.events = tuple(
        Event(run=RunId(one.run_id), seq=one.seq, kind=one.kind, step=one.step, data=one.data, at=one.at)
        for one in EventRow.objects.filter(run=row).order_by("seq")
    )
    kept = list(Checkpoint.objects.filter(run=row).order_by("n"))
    run.checkpoints = tuple(info_of(one) for one in kept)
    run.state = read_row(kept[-1]).body["state"] if kept else {}
    pending = HumanRequest.objects.filter(OPEN, run=row).order_by("created", "id")
    run.requests = tuple(_request(one) for one in pending)


def _request(row: HumanRequest) -> BenchRequest:
    kept: dict[str, Any] = {name: getattr(row, name) for name in ("id", "step", "kind", "card", "answer_schema", "due")}
    kept |= {"key": RequestKey(row.key), "by": tuple(row.by), "not_by": tuple(row.not_by)}
    votes = {vote.acting_for or (vote.by.get_username() if vote.by else ""): vote.verdict for vote in votes_of(row)}
    return BenchRequest(run=row.run_id, votes=votes, **kept)


# The moments at which something becomes due by itself: where a bench's clock stops on its way.


def next_moment(after: datetime, until: datetime) -> datetime | None:
    """Return the first moment later than ``after`` and not later than ``until``, None if there is none."""
    waking = Run.objects.filter(phase__in=TIMED, wake_at__gt=after).order_by("wake_at")
    found = (
        next_alarm(after),
        next_finalization(after),
        next_firing(),
        waking.values_list("wake_at", flat=True).first(),
    )
    return min((at for at in found if at is not None and after < at <= until), default=None)


# The thread in which a bench uses Django's ORM: an event loop must not.

P = ParamSpec("P")
T = TypeVar("T")


class OrmThread:
    """Calls functions one after the other, in a thread that keeps its connection."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="wfdash-bench")

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **kwargs))

    def wait(self, function: Callable[[], T]) -> T:
        """Return what the function returns, to a caller that waits for it."""
        return self._pool.submit(function).result()

    @contextmanager
    def within(self, manager: AbstractContextManager[T]) -> Iterator[T]:
        """Enter and leave a context in the thread."""
        value = self.wait(manager.__enter__)
        try:
            yield value
        finally:
            self.wait(partial(manager.__exit__, None, None, None))

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()

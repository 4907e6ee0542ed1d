"""``-n WORKERS``: tests run by several processes, forked once all tests are collected.

To collect nine thousand tests takes ten seconds, which processes that begin on their own would each take. Each worker
asks for its next test before it runs one, since fixtures are kept for the next. What it reports, this process passes on
to pytest's own reporting. A worker that ends in mid-test fails that test, and another takes over what it had left.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Iterable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.config import create_terminal_writer

from tests.nursery import Nursery
from tests.workers.grouping import group_of

SHARED = pytest.StashKey[Nursery]()
"""Where processes for tests come from, if several workers start them."""
STOP_SECONDS = 30.0
"""How long a worker may take to end when the others have."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``-n``, a letter that pytest keeps for itself and its plugins."""
    parser.getgroup("workers")._addoption(
        "-n",
        "--workers",
        type=int,
        default=0,
        metavar="WORKERS",
        help="run tests in so many processes (0: in this one)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers, unless there is nothing to run or no worker was asked for."""
    count = min(session.config.getoption("workers"), len(session.items))
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    Crew(session, count).work()
    return True


class Distribution:
    """Which worker runs which test: each group in one worker, the groups in the order of their first tests."""

    def __init__(self, groups: Iterable[str]) -> None:
        waiting: dict[str, deque[int]] = {}
        for place, group in enumerate(groups):
            waiting.setdefault(group, deque()).append(place)
        self._waiting = deque(waiting.values())

    def next_of(self, begun: deque[int]) -> int | None:
        """Return the place of a worker's next test, of the group that it has begun or the next one; None at the end."""
        if not begun and self._waiting:
            begun.extend(self._waiting.popleft())
        return begun.popleft() if begun else None


class Crew:
    """The workers of one run, seen from the process that collected the tests."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self._session, self._hook = session, session.config.hook
        self._rest = Distribution(group_of(item) for item in session.items)
        self._workers: dict[Connection, Worker] = {}
        self._names = (f"gw{number}" for number in range(sys.maxsize))
        self._count = count
        self._nursery = session.config.stash.get(SHARED, None)
        # Made before the workers are, which have their folders in it.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.showfspath = False

    def work(self) -> None:
        """Run all tests, or as many as ``--maxfail`` allows."""
        try:
            for _ in range(self._count):
                self._start(deque())
            while self._workers:
                nursery = [self._nursery.watched] if self._nursery else []
                # A test has a time limit of its own; what it leaves, such as a thread, has none.
                over = all(worker.dismissed and not worker.given for worker in self._workers.values())
                heard = wait([*nursery, *self._workers], STOP_SECONDS if over else None)
                if not heard:
                    names = " ".join(worker.name for worker in self._workers.values())
                    self._session.shouldfail = f"not ended after their last test, because of what it left: {names}"
                    break
                for one in heard:
                    if isinstance(one, Connection):
                        self._hear(one)
                    elif self._nursery:
                        self._nursery.tend()
        finally:
            self._end()
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _start(self, begun: deque[int]) -> None:
        ours, theirs = multiprocessing.Pipe()
        name = next(self._names)
        process = multiprocessing.get_context("fork").Process(
            target=run_tests, args=(self._session, name, theirs, [ours, *self._workers])
        )
        process.start()
        theirs.close()
        self._workers[ours] = Worker(name, process, begun)

    def _hear(self, connection: Connection) -> None:
        worker = self._workers[connection]
        said, *more = heard_from(connection)
        if said == "ended":
            connection.close()
            self._mourn(self._workers.pop(connection))
        elif said == "next":
            self._give(connection, worker)
        elif said == "report":
            report = self._hook.pytest_report_from_serializable(config=self._session.config, data=more[0])
            # As xdist has it: by this the terminal knows that files are mixed, and by which worker to name a failure.
            report.node = worker
            self._hook.pytest_runtest_logreport(report=report)
        else:
            if said == "pytest_runtest_logfinish":
                worker.given.popleft()
            getattr(self._hook, said)(nodeid=more[0], location=more[1])

    def _give(self, connection: Connection, worker: Worker) -> None:
        stopped = self._session.shouldfail or self._session.shouldstop
        place = None if stopped else self._rest.next_of(worker.begun)
        worker.given.extend([] if place is None else [place])
        worker.dismissed = place is None
        try:
            connection.send(place)
        except BrokenPipeError:
            # It has ended, which is heard next.
            pass

    def _mourn(self, worker: Worker) -> None:
        """Fail the test in which a worker ended, and let another go on; one that has run all of its tests may end."""
        worker.process.join()
        status = worker.process.exitcode
        if not worker.given and not status:
            return
        words = f"worker {worker.name} ended with status {status}"
        if not worker.given:
            self._session.shouldfail = f"{words} after its last test"
            return
        item = self._session.items[worker.given.popleft()]
        keywords: dict[str, Any] = dict.fromkeys(item.keywords, 1)
        report = pytest.TestReport(item.nodeid, item.location, keywords, "failed", f"{words} in this test", "call")
        self._hook.pytest_runtest_logreport(report=report)
        self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._start(deque([*worker.given, *worker.begun]))

    def _end(self) -> None:
        for connection in self._workers:
            connection.close()
        for worker in self._workers.values():
            worker.process.join(STOP_SECONDS)
            worker.process.kill()


class Worker:
    """A worker as the crew knows it: what it has been given, and what is left of the group that it has begun."""

    def __init__(self, name: str, process: ForkProcess, begun: deque[int]) -> None:
        self.name, self.process, self.begun = name, process, begun
        self.gateway, self._workerinfocache = SimpleNamespace(id=name), f"[{name}]"
        self.given: deque[int] = deque()
        self.dismissed = False


def heard_from(connection: Connection) -> tuple[Any, ...]:
    """Return what a worker says, or that it has ended."""
    try:
        words: tuple[Any, ...] = connection.recv()
        return words
    except (EOFError, OSError):
        # In the middle of what it said, maybe.
        return ("ended",)


def run_tests(session: pytest.Session, name: str, connection: Connection, others: list[Connection]) -> None:
    """Run one test after the other, as a worker, until there are no more."""
    for other in others:
        other.close()
    become_worker(session.config, name, connection)

    def ask() -> pytest.Item | None:
        connection.send(("next",))
        place = connection.recv()
        return None if place is None else session.items[place]

    item = ask()
    while item is not None:
        following = ask()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    sys.stdout.flush()
    sys.stderr.flush()


def become_worker(config: pytest.Config, name: str, connection: Connection) -> None:
    """Report to the process that collected the tests, instead of on the terminal, and keep folders and output apart."""
    # As xdist has it: what pytest-django names databases by, and what pytest's plugins know workers by.
    config.workerinput = {"workerid": name}  # type: ignore[attr-defined]
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir(mode=0o700)
    # What is captured goes to a file, which all would write into. The objects stay: handlers of logs, and defaults of
    # functions, have them since they were imported.
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.suspend_global_capture()
    both = capture._global_capturing
    for one in (both.out, both.err) if both is not None else ():
        if hasattr(one, "tmpfile"):
            with TemporaryFile(buffering=0) as own:
                os.dup2(own.fileno(), one.tmpfile.fileno())
    for plugin in ("terminalreporter", "terminalprogress"):
        if config.pluginmanager.has_plugin(plugin):
            config.pluginmanager.unregister(name=plugin)
    config.pluginmanager.register(SimpleNamespace(_tw=create_terminal_writer(config, sys.stderr)), "terminalreporter")
    config.pluginmanager.register(Reporter(config, connection))


class Reporter:
    """The plugin by which a worker reports."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._serialized = partial(config.hook.pytest_report_to_serializable, config=config)
        self._send = connection.send

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Say that a test begins."""
        self._send(("pytest_runtest_logstart", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say how a part of a test ended."""
        self._send(("report", self._serialized(report=report)))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Say that a test is over."""
        self._send(("pytest_runtest_logfinish", nodeid, location))

"""Functions that run in a process of their own beside a world: ``python -m tests.faults.plays FUNCTION JSON``.
A function of another module here is named with it: ``failpoints.fail_everywhere``.

Django is set up before, no connection is open yet, so that a function may fork. What it returns is printed as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.graphs import right_answer
from tests.faults.ledger import read_ledger, write_line

SECONDS = 40.0
"""How long a play waits for a run at most."""


def admin(name: str = "admin") -> Any:
    from django.contrib.auth.models import User

    from wfdash.access.viewer import viewer_for

    user = User.objects.filter(username=name).first() or User.objects.create_superuser(name)
    return viewer_for(user)


def token() -> str:
    """Return a token by which programs act as the administrator."""
    from wfdash.access.viewer import RIGHTS
    from wfdash.actions.account import create_token

    return str(create_token(admin(), "program", rights=RIGHTS["admin"]).text)


def start(workflow: str, number: int, ledger: str, key: str | None = None) -> str:
    """Start a run and return its id; the same key starts it once."""
    from wfdash.actions.runs.lifecycle import start_run

    return start_run(admin(), workflow, {"number": number, "ledger": ledger}, key=key).id


def start_many(workflow: str, numbers: list[int], ledger: str) -> list[str]:
    """Start several runs."""
    return [start(workflow, number, ledger) for number in numbers]


def start_each(numbers: dict[str, list[int]], ledger: str) -> list[str]:
    """Start runs of several workflows."""
    return [start(workflow, number, ledger) for workflow, each in numbers.items() for number in each]


def answer_open(ledger: str, run: str | None = None, acks: str | None = None) -> int:
    """Answer what is open, truthfully; accepted answers are noted in ``acks``. Returns how many."""
    from checkpoints.models import HumanRequest
    from wfdash.actions.requests.answer import answer_request

    viewer = admin()
    found = HumanRequest.objects.filter(closed=None, answered=None).select_related("run")
    requests = list(found.filter(run=run) if run else found)
    for request in requests:
        value = right_value(request, ledger)
        answer_request(viewer, request.id, value)
        if acks:
            write_line(acks, request=request.id, value=value)
    return len(requests)


def right_value(request: Any, ledger: str) -> Any:
    """Return what a person who looks at the outside world would answer."""
    number = request.run.input["number"]
    if request.kind != "effect":
        return right_answer(request.kind, request.card["subject"], number)
    key = request.card["context"]["effect key"]
    happened = any(line.key == key for line in read_ledger(ledger) if line.kind == "once")
    return {"action": "happened", "result": f"receipt {number}"} if happened else {"action": "again"}


@contextmanager
def working(name: str = "play") -> Iterator[None]:
    """Drive runs in a thread in the meantime; claims that dead workers left behind are ended first."""
    from checkpoints.claims import process_name
    from checkpoints.database.storage import DatabaseStorage
    from wfdash.worker.worker import Worker

    loops: list[tuple[asyncio.AbstractEventLoop, Worker]] = []
    ready = threading.Event()

    async def serve() -> None:
        storage = DatabaseStorage()
        await storage.expire_claims(worker_prefix="")
        worker = Worker(storage, name=f"{name}:{process_name()}")
        loops.append((asyncio.get_running_loop(), worker))
        ready.set()
        try:
            await worker.serve()
        finally:
            await storage.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait(SECONDS)
    try:
        yield
    finally:
        loop, worker = loops[0]
        loop.call_soon_threadsafe(worker.stop)
        thread.join(SECONDS)


def wait_for(look: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Return the first true outcome, or the last one when the time is over."""
    end = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return seen


def phases(runs: list[str]) -> set[str]:
    from checkpoints.models import Run

    return set(Run.objects.filter(pk__in=runs).values_list("phase", flat=True))


def drive(runs: list[str], until: list[str]) -> list[str]:
    """Drive until every one of these runs is in one of the phases; returns the phases they are in."""
    with working():
        wait_for(lambda: phases(runs) <= set(until))
    return sorted(phases(runs))


def live_through(runs: list[str], ledger: str, acks: str | None = None) -> list[str]:
    """Drive these runs and answer their requests until they have ended."""
    with working():

        def ended() -> bool:
            for run in runs:
                answer_open(ledger, run, acks)
            return phases(runs) <= {"completed", "failed", "cancelled"}

        wait_for(ended)
    return sorted(phases(runs))


def drive_without_hints(runs: list[str], ledger: str) -> list[str]:
    """The same with every bell silent: no one is ever told anything."""
    from wfdash import pubsub

    pubsub.Topic.publish = lambda *args, **kwargs: None  # type: ignore[method-assign,assignment]
    return live_through(runs, ledger)


def restore(run: str, checkpoint: str) -> int:
    """Make a checkpoint the run's head; returns its n."""
    from wfdash.actions.checkpoints import restore_run

    return restore_run(admin(), run, checkpoint).n


def open_requests(count: int) -> str:
    """Make a run with that many open questions; returns its id."""
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.ids import RequestKey, new_checkpoint_id, new_run_id
    from checkpoints.recorder import utc_now
    from checkpoints.records import Checkpoint, Commit, Phase, Request, Standing

    run = new_run_id()
    questions = tuple(
        Request(key=RequestKey(f"q{place}"), step="ask", answer_schema={"type": "string"}) for place in range(count)
    )
    head = Checkpoint(
        id=new_checkpoint_id(),
        run=run,
        workflow="chain",
        n=1,
        version="v",
        created=utc_now(),
        body={},
        requests=questions,
    )
    commit = Commit(run=run, checkpoint=head, opened=questions, standing=Standing(phase=Phase.PAUSED))

    async def write() -> None:
        storage = DatabaseStorage()
        await storage.commit(commit)
        await storage.aclose()

    asyncio.run(write())
    return run


def answer_at_once(run: str, people: int) -> list[dict[str, Any]]:
    """Let several processes answer every question of the run at the same instants; returns what each was told."""
    from django.db import connections

    from checkpoints.models import HumanRequest

    names = [f"person{place}" for place in range(people)]
    for name in names:
        admin(name)
    requests = list(HumanRequest.objects.filter(run=run).order_by("key").values_list("id", flat=True))
    connections.close_all()
    fork = multiprocessing.get_context("fork")
    barrier, told = fork.Barrier(people), fork.SimpleQueue()
    crew = [fork.Process(target=_answer_all, args=(name, requests, barrier, told)) for name in names]
    for process in crew:
        process.start()
    outcomes = [outcome for _ in crew for outcome in told.get()]
    for process in crew:
        process.join()
    return outcomes


def vote_at_once(count: int) -> dict[str, Any]:
    """Let a person and anyone who stands in for them vote on the same questions at the same instants."""
    from datetime import timedelta

    from django.utils import timezone

    from checkpoints.models import Absence, Answer, HumanRequest, Reply

    run, now = open_requests(count), timezone.now()
    absent, delegate = admin("person0"), admin("person1")
    Absence.objects.create(user=absent.user, delegate=delegate.user, since=now, until=now + timedelta(days=1))
    HumanRequest.objects.filter(run=run).update(by=["person0"], policy={"by": ["person0"], "need": 2})
    told = answer_at_once(run, people=2)
    won = [outcome["request"] for outcome in told if outcome["won"]]
    return {"won": sorted(won), "votes": Reply.objects.count(), "decided": Answer.objects.count()}


def _answer_all(name: str, requests: list[str], barrier: Any, told: Any) -> None:
    from wfdash.actions.requests.answer import answer_request
    from wfdash.domain.errors import AlreadyAnswered

    viewer, outcomes = admin(name), []
    for request in requests:
        barrier.wait()
        try:
            answer_request(viewer, request, f"by {name}")
            outcomes.append({"request": request, "by": name, "won": True})
        except AlreadyAnswered as error:
            outcomes.append({"request": request, "by": name, "won": False, "winner": error.facts["by"]})
    told.put(outcomes)


def save_at_once(processes: int, saves: int) -> list[str]:
    """Let several processes save checkpoints of runs of their own into one storage; returns the runs."""
    from checkpoints.ids import new_run_id

    fork = multiprocessing.get_context("fork")
    runs = [new_run_id() for _ in range(processes)]
    crew = [fork.Process(target=_save, args=(run, saves)) for run in runs]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    assert [process.exitcode for process in crew] == [0] * processes
    return [str(run) for run in runs]


def _save(run: Any, saves: int) -> None:
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.ids import new_checkpoint_id
    from checkpoints.recorder import utc_now
    from checkpoints.records import Checkpoint

    async def save() -> None:
        storage = DatabaseStorage()
        for n in range(1, saves + 1):
            body = {"state": {"n": n, "run": run}, "position": {}}
            named = {"id": new_checkpoint_id(), "run": run, "workflow": "w", "version": "v"}
            await storage.save(Checkpoint(**named, n=n, created=utc_now(), body=body))
            latest = await storage.get_latest(run)
            assert latest is not None
            assert latest.body == body
        await storage.aclose()

    asyncio.run(save())


def main() -> None:
    import django

    django.setup()
    module, _, name = sys.argv[1].rpartition(".")
    functions = importlib.import_module(f"tests.faults.{module}") if module else sys.modules[__name__]
    result = getattr(functions, name)(**json.loads(sys.argv[2]))
    sys.stdout.flush()
    print(json.dumps(result))


if __name__ == "__main__":
    main()

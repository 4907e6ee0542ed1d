"""Five journeys through the house, counted: what a reader of one request has to open.

Counted are the calls of Python functions that files of ``wfdash`` and ``checkpoints`` define, comprehensions and
lambdas among them and each resumption of a generator or coroutine too, in all threads; ``modules`` are those files,
``functions`` the different ones. SQLite, the native engine, a workflow of three steps whose second asks for approval,
after two warm-ups. ``--modules`` lists the calls of each module, ``--calls`` those of each function.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.benchmarks.world import Report, fresh_django
from tests.keys import AUDIT_KEY

ROOT = Path(__file__).parents[3]
PRODUCT = tuple(f"{ROOT / package}{os.sep}" for package in ("checkpoints", "wfdash"))
WARM_UPS = 2


BARS = {"answer": (45, 900), "claim to end": (45, 800), "restore": (45, None), "list": (40, None), "start": (35, None)}
"""How many modules a journey may visit, and how many calls it may make."""


def count_by_module(calls: Counter[CodeType]) -> Counter[str]:
    """Return the calls by file."""
    found: Counter[str] = Counter()
    for code, count in calls.items():
        found[code.co_filename] += count
    return found


def load_workflow(catalog: Any) -> None:
    """Make the catalogue hold the workflow of the journeys and nothing else."""
    from tests.driving import put
    from wfdash.workflow import Approval, Context, Workflow

    made = Workflow("journey", title="Journey")

    @made.step(start=True)
    async def read(order: dict[str, Any], ctx: Context) -> dict[str, Any]:
        ctx.state["order"] = order
        return order

    @made.step(after=read)
    async def approve(order: dict[str, Any], ctx: Context) -> bool:
        return (await ctx.ask(Approval(subject="Pay this order?"))).approved

    @made.step(after=approve)
    async def pay(approved: bool, ctx: Context) -> str:
        return "paid" if approved else "refused"

    put(catalog, made)


class Journeys:
    """Each method is a journey: it prepares, then calls what is counted."""

    def __init__(self) -> None:
        from django.test import Client

        from checkpoints.claims import ClaimRenewer
        from checkpoints.database.storage import DatabaseStorage
        from tests import people

        who = people.make_people()
        self.client = Client(HTTP_HOST="localhost")
        self.client.force_login(who["adam"])
        self.adam = people.viewer("adam")
        self.storage, self.runner = DatabaseStorage(), asyncio.Runner()
        self.renewer = ClaimRenewer(self.storage, ttl=30)
        self.calls: Counter[CodeType] = Counter()
        self.counts = False

    def measure(self) -> dict[str, Counter[CodeType]]:
        """Return the calls of each journey by function, after warm-ups."""
        found: dict[str, Counter[CodeType]] = {}
        ways = (self.answer, self.claim_to_end, self.restore, self.list_of_runs, self.start_by_api)
        before = sys.getprofile()
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        try:
            for name, go in zip(BARS, ways, strict=True):
                for _ in range(WARM_UPS + 1):
                    self.calls = found[name] = Counter()
                    go()
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            self.renewer.close()
            self.runner.run(self.storage.aclose())
            self.runner.close()
        return found

    def _count(self, frame: FrameType, event: str, _function: Any) -> None:
        if event == "call" and self.counts and frame.f_code.co_filename.startswith(PRODUCT):
            self.calls[frame.f_code] += 1

    def _counted(self, go: Callable[[], Any]) -> Any:
        self.counts = True
        done = go()
        self.counts = False
        return done

    def answer(self) -> None:
        """Post the form of a question, by a browser; the answer takes effect at once."""
        _, request = self._asking()
        self._send(302, lambda: self.client.post(f"/requests/{request}/", {"_action": "approve"}))

    def claim_to_end(self) -> None:
        """Claim an answered run and drive it to its end, as a worker does."""
        from wfdash.actions.requests.answer import answer_request

        run, request = self._asking()
        answer_request(self.adam, request, {"action": "approve"})
        self._counted(lambda: self.runner.run(self._drive(run, "Finished")))

    def restore(self) -> None:
        """Confirm that a run returns to its checkpoint before the question was answered."""
        from checkpoints.models import Checkpoint

        run, _ = self._asking()
        first = Checkpoint.objects.values_list("pk", flat=True).get(run=run, n=1)
        self._send(302, lambda: self.client.post(f"/runs/{run}/checkpoints/{first}/restore/", {"_seen": ""}))

    def list_of_runs(self) -> None:
        """Read the page of the list of runs with a filter."""
        self._asking()
        self._send(200, lambda: self.client.get("/runs/?q=status:waiting"))

    def start_by_api(self) -> None:
        """Start a run."""
        self._send(201, self._post_start)

    def _post_start(self) -> Any:
        given = {"workflow": "journey", "message": {"number": 7}}
        return self.client.post("/api/v1/runs", given, "application/json")

    def _send(self, status: int, send: Callable[[], Any]) -> None:
        response = self._counted(send)
        assert response.status_code == status, response.content

    def _asking(self) -> tuple[str, str]:
        """Return a run that waits for an answer, and its request."""
        run = self._post_start().json()["id"]
        self.runner.run(self._drive(run, "Waiting"))
        from tests.driving import pending

        (request,) = pending(run).values()
        return run, request.pk

    async def _drive(self, run: str, end: str) -> None:
        from checkpoints.claims import boottime
        from checkpoints.ids import RunId
        from wfdash.worker.drive import ClaimedRecorder, advance

        since, storage = boottime(), self.storage
        (claim,) = await storage.claim_due(worker="test", ttl=30, limit=1, runs=[RunId(run)])
        facts = claim.facts or await storage.read_run(claim.run)
        recorder = ClaimedRecorder(storage, claim, facts.workflow, clock=storage.now)
        recorder.renewer = self.renewer
        outcome = await advance(storage, recorder, facts, self.renewer, since)
        assert type(outcome).__name__ == end


def show(calls: Counter[CodeType], by_function: bool) -> None:
    """Print what is called how often."""
    for module, count in sorted(count_by_module(calls).items(), key=lambda one: (one[1], one[0])):
        print(f"{count:6} {Path(module).relative_to(ROOT)}")
        here = [code for code in calls if by_function and code.co_filename == module]
        for code in sorted(here, key=lambda one: one.co_firstlineno):
            print(f"{calls[code]:14} {code.co_firstlineno:4} {getattr(code, 'co_qualname', code.co_name)}")


def main() -> int:
    """Measure and print."""
    os.environ.update(WFDASH_AUDIT_KEY=AUDIT_KEY, WFDASH_UNDO="0", WFDASH_SIGNALS="off", WFDASH_ASK_PEOPLE="0")
    with fresh_django():
        from wfdash.engines.catalog import load

        load_workflow(load())
        found = Journeys().measure()
    report = Report("journeys: modules, functions and calls of the product")
    for name, calls in found.items():
        modules, most = BARS[name]
        report.at_most(f"{name}: modules", len(count_by_module(calls)), modules, "")
        report.note("  functions", str(len(calls)))
        report.at_most("  calls", calls.total(), most or math.inf, "")
        if {"--modules", "--calls"} & {*sys.argv}:
            print(f"\n{name}")
            show(calls, "--calls" in sys.argv)
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

"""The served file changes while a run waits and the server is down: nothing is lost, whatever the change was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import Server, shell, wait_until
from tests.e2e.workflows.test_held import DESK
from tests.e2e.workflows.test_held import server as server

pytestmark = pytest.mark.process

HEAD = """
from __future__ import annotations
from wfdash.workflow import Context, Workflow
from wfdash.workflow.authoring import Migration

wf = Workflow("claims")

@wf.step(start=True)
async def read(amount: int) -> int:
    return amount

"""
ASKS = """
@wf.step(after=read{facts})
async def {name}(amount: int, ctx: Context) -> int:
    return int(await ctx.ask("how much?", answer=int))

@wf.step(after={name})
async def pay(amount: int) -> str:
    return f"paid {{amount}}"
"""
FILES = """
@wf.step(after=pay)
async def archive(text: str) -> str:
    return text + ", filed"
"""
FIRST = HEAD + ASKS.format(name="review", facts="")
RENAMED = HEAD + ASKS.format(name="check", facts=", was='review'")
LONGER = FIRST + FILES
HOOKED = (
    HEAD
    + ASKS.format(name="decide", facts="")
    + FILES
    + """
@wf.migrate(from_version={version!r})
def widen(run: Migration) -> None:
    run.rename("review", "decide")
    run.state["widened"] = True
"""
)

START = DESK + "print(start_run(admin, 'claims', 5).pk)"
ANSWER = DESK + "answer_request(admin, HumanRequest.objects.get(answered=None).pk, 7)"
READ = """
import json
from checkpoints.models import Run
run = Run.objects.get()
print(json.dumps({"phase": run.phase, "output": run.output, "version": run.version,
    "kinds": list(run.events.order_by("seq").values_list("kind", flat=True)),
    "seqs": list(run.events.order_by("seq").values_list("seq", flat=True))}))
"""


@pytest.fixture
def served(tmp_path: Path) -> Path:
    path = tmp_path / "claims.py"
    path.write_text(FIRST)
    return path


def read(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell(server, READ).splitlines()[-1])
    assert found["seqs"] == list(range(1, len(found["seqs"]) + 1))
    return found


def reach(server: Server, phase: str) -> dict[str, Any]:
    wait_until(lambda: read(server)["phase"] == phase, what=f"a run that is {phase}")
    return read(server)


@pytest.fixture
def version(server: Server) -> str:
    """Start a run, let it wait, stop the server; return the run's version."""
    shell(server, START)
    found = reach(server, "waiting")
    server.stop()
    return str(found["version"])


@pytest.mark.parametrize(("source", "output"), [(RENAMED, "paid 7"), (HOOKED, "paid 7, filed")])
def test_what_the_author_declared_carries_the_run_over_when_it_is_answered(
    source: str, output: str, server: Server, served: Path, version: str
) -> None:
    served.write_text(source.replace("{version!r}", repr(version)))
    server.start()
    shell(server, ANSWER)
    found = reach(server, "completed")
    assert found["output"] == output
    assert found["kinds"].count("run.migrated") == 1
    assert found["version"] != version


def test_what_no_one_declared_holds_the_run_until_its_old_code_is_back(
    server: Server, served: Path, version: str
) -> None:
    served.write_text(LONGER)
    server.start()
    shell(server, ANSWER)
    assert reach(server, "paused")["kinds"][-1] == "run.held"
    server.stop()
    served.write_text(FIRST)
    server.start()
    found = reach(server, "completed")
    assert (found["output"], found["version"]) == ("paid 7", version)
    assert found["kinds"].count("request.answered") == 1

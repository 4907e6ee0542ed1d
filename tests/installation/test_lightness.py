"""What a server imports: a framework only where one of its workflows is served."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, pure_modules

pytestmark = [pytest.mark.frameworks, pytest.mark.process]

PACKAGES = (
    "agent_framework",
    "agent_framework_orchestrations",
    "agents",
    "langchain",
    "langchain_core",
    "langgraph",
    "pydantic_ai",
)
LOADED = """
import sys
import wfdash.asgi
from wfdash.engines import catalog
from wfdash.worker.worker import Worker
print(*sorted(entry.name for entry in catalog.entries()))
print(*[failure.error for failure in catalog.failures()])
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split(","))))
"""
DRIVERS = (
    "PIL apprise celery fido2 httpx mkdocs opentelemetry procrastinate psycopg py_vapid qrcode redis rich slack_sdk"
)
HEAVY = (*PACKAGES, "openai", "langsmith", "mcp", *DRIVERS.split())
EXAMPLES = ["patch_review", "expense_batch", "publish_article", "parcel"]


def loaded(folder: Path, source: str) -> list[str]:
    """Return which workflows a server has, what failed to load, and which of the frameworks it has imported."""
    own = {"WFDASH_DATA": str(folder / "data"), "WFDASH_WORKFLOWS": source, "DJANGO_SETTINGS_MODULE": "wfdash.settings"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WFDASH_")}
    command = [sys.executable, "-c", LOADED, ",".join(HEAVY)]
    done = subprocess.run(command, cwd=ROOT, env=kept | own, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_server_without_workflows_of_a_framework_imports_none(tmp_path: Path) -> None:
    served = os.pathsep.join(f"wfdash.examples.{name}" for name in EXAMPLES)
    names, failures, imported = loaded(tmp_path, served)
    assert {*EXAMPLES} <= {*names.split()}
    assert (failures, imported) == ("", "")


def test_a_server_with_a_graph_of_langgraph_imports_that_and_no_other(tmp_path: Path) -> None:
    pytest.importorskip("langgraph")
    (tmp_path / "flows.py").write_text(
        """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict):
    n: int

def step(state: State) -> State:
    return state

graph = StateGraph(State).add_node("step", step).add_edge(START, "step").compile()
"""
    )
    names, failures, imported = loaded(tmp_path, str(tmp_path / "flows.py"))
    assert "graph" in names.split()
    assert failures == ""
    assert {"langgraph", "langchain_core"} <= {*imported.split()}
    assert not {"agent_framework", "pydantic_ai", "agents", "openai", "langchain"} & {*imported.split()}


def test_neither_the_command_line_nor_a_workflow_as_a_library_imports_what_it_may_not_need() -> None:
    heavy = "print({'django', 'httpx', 'jsonschema', 'psycopg', 'rich'} & {*sys.modules}, 'pydantic' in sys.modules)"
    code = (
        f"import sys; from wfdash import cli; cli._parser(); {heavy}; import checkpoints.file, wfdash.workflow; {heavy}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set() False\nset() True\n"


BLOCKED = """
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django", "channels", "psycopg"):
            raise ImportError(f"{name} is blocked here")
sys.meta_path.insert(0, Blocked())
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] not in sys.argv[1].split(","):
            raise
assert "django" not in sys.modules
"""


def test_the_pure_half_works_where_django_cannot_be_imported() -> None:
    # PostgreSQL's driver is an extra, which these need.
    names = [name for name in pure_modules() if name != "checkpoints.orm" and ".postgres" not in name]
    missing = ",".join(name for name in (*PACKAGES, "ormsgpack", "google", "mcp") if find_spec(name) is None)
    command = [sys.executable, "-c", BLOCKED, missing, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr

"""What a framework costs a server: processor time until its workflows are loaded, and memory then.

Each figure is of a fresh process that imports what a server and its worker import and loads one file with one
workflow. The file of the first row is native.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.world import Report, median

ROUNDS = 5
START = """
import time
import wfdash.asgi
from wfdash.engines import catalog
from wfdash.worker.worker import Worker
assert catalog.entries() and not catalog.failures(), catalog.failures()
took = time.process_time()
with open("/proc/self/statm") as file:
    print(took, int(file.read().split()[1]) * 4096 / 2**20)
"""
NATIVE = """
from wfdash.workflow import Workflow

flow = Workflow("flow")

@flow.step(start=True)
def step(n: int) -> int:
    return n
"""
GRAPH = """
from typing import TypedDict
from langgraph.graph import START, StateGraph

class State(TypedDict):
    n: int

graph = StateGraph(State).add_node("step", lambda state: state).add_edge(START, "step").compile()
"""
EXECUTORS = """
from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler

class Step(Executor):
    @handler
    async def run(self, n: int, ctx: WorkflowContext[int, int]) -> None:
        await ctx.yield_output(n)

flow = WorkflowBuilder(start_executor=Step(id="step"), name="flow").build()
"""
FILES = {
    "a native workflow": NATIVE,
    "a graph of LangGraph": GRAPH,
    "... and langchain.agents": GRAPH + "\nfrom langchain.agents import create_agent\n",
    "a workflow of Agent Framework": EXECUTORS,
    "... and its orchestrations": EXECUTORS + "\nfrom agent_framework.orchestrations import SequentialBuilder\n",
    "a native workflow with pydantic-ai": NATIVE + "\nfrom pydantic_ai import Agent\n",
    "a native workflow with the OpenAI Agents SDK": NATIVE + "\nfrom agents import Agent\n",
}


def started(folder: Path, source: Path) -> tuple[float, float]:
    """Return seconds and MiB of a server with this file."""
    own = {"WFDASH_DATA": str(folder), "WFDASH_WORKFLOWS": str(source), "DJANGO_SETTINGS_MODULE": "wfdash.settings"}
    command = [sys.executable, "-c", START]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


def main() -> int:
    """Measure the files in turns."""
    report = Report("A server with one file (processor time until it is loaded, memory then)")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in FILES}
    with tempfile.TemporaryDirectory() as temporary:
        for place, text in enumerate(FILES.values()):
            Path(temporary, f"flows_{place}.py").write_text(text)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # What is installed is compiled.
        for _ in range(ROUNDS):
            before = sum(os.times()[2:4])
            subprocess.run([sys.executable, "-m", "wfdash", "--help"], stdout=subprocess.DEVNULL, check=True)
            took = sum(os.times()[2:4]) - before
            for place, name in enumerate(FILES):
                found[name].append(started(Path(temporary), Path(temporary, f"flows_{place}.py")))
    for name, figures in found.items():
        seconds, memory = (median(values) for values in zip(*figures, strict=True))
        report.note(name, f"{seconds:.2f} s  {memory:.0f} MiB")
    report.at_most("the first, processor time", median([one[0] for one in found["a native workflow"]]), 1.5, "s")
    report.at_most("wfdash --help, processor time", took, 0.25, "s")
    return report.show()


if __name__ == "__main__":
    sys.exit(main())

"""``wfdash new NAME``: a project to begin with, whose tests pass: a workflow, its tests, packaging and an image."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from importlib.metadata import distribution
from pathlib import Path
from string import Template

from wfdash import ADDRESS, __version__
from wfdash.cli.commands import argument, plain_command, print_error

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")

WORKFLOW = '''"""$title: asks a person, then does it."""

from __future__ import annotations

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Policy, Workflow

refunds = Workflow("$name", title="$title", run_title="{order}", policy=Policy(due="2d", on_timeout="reject"))


class Refund(BaseModel):
    """What the start form asks for."""

    order: str
    amount: float


@refunds.step(start=True)
async def review(refund: Refund, ctx: Context) -> Refund | str:
    """Small refunds need no one; of the others a person decides."""
    if refund.amount <= 50:
        return refund
    card = Approval(subject=f"Refund {refund.amount:.2f} for order {refund.order}?", proposal=refund)
    decision = await ctx.ask(card)
    return refund if decision.approved else f"rejected: {decision.reason or 'no reason given'}"


@refunds.step(after=review)
async def pay(refund: Refund, ctx: Context) -> str:
    """Pay once, whatever happens to this process."""
    return await ctx.call(transfer, refund.order, refund.amount, once=True)


def transfer(order: str, amount: float) -> str:
    """Return the receipt. Call your bank here."""
    return f"paid {amount:.2f} for {order}"
'''

TESTS = '''"""What $title promises."""

from __future__ import annotations

from wfdash.testing import bench, run_step
from workflows import Refund, refunds, review


async def test_small_refunds_are_paid_without_asking() -> None:
    async with bench(refunds) as t:
        run = await t.start(Refund(order="A-7", amount=20))
        assert run.result() == "paid 20.00 for A-7"


async def test_large_refunds_are_paid_once_a_person_agrees() -> None:
    async with bench(refunds, people=["ana"]) as t:
        t.replace("transfer", lambda order, amount: "receipt")
        run = await t.start(Refund(order="A-7", amount=80))
        await t.answer(run, "approve", by="ana")
        assert run.result() == "receipt"
        assert len(t.calls) == 1


async def test_without_an_answer_it_is_rejected_after_two_days() -> None:
    async with bench(refunds, people=["ana"]) as t:
        run = await t.start(Refund(order="A-7", amount=80))
        await t.advance("2d")
        assert run.result() == "rejected: Not answered in time."


async def test_a_rejection_says_why() -> None:
    answer = {"action": "reject", "reason": "no receipt"}
    assert await run_step(review, Refund(order="A-7", amount=80), answers=[answer]) == "rejected: no receipt"
'''

PROJECT = """[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["$wfdash"]

[project.optional-dependencies]
dev = ["mypy", "pytest", "pytest-asyncio"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
py-modules = ["workflows"]

[tool.pytest.ini_options]
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
pythonpath = ["."]
testpaths = ["tests"]
"""

DOCKERFILE = """FROM python:3.13-slim

RUN useradd --system --uid 10001 --home-dir /data wfdash && install -d -m 0700 -o wfdash -g wfdash /data
WORKDIR /app
COPY pyproject.toml workflows.py ./
# A wfdash that pyproject.toml names by a file: copy its wheel here before, and name it by its place in the image.
RUN pip install --no-cache-dir .
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \\
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["wfdash", "up", "--host", "0.0.0.0", "--data", "/data", "workflows.py"]
"""

README = """# $title

    python -m venv .venv && . .venv/bin/activate
    pip install -e ".[dev]"
    pytest                           # the tests
    wfdash check workflows.py        # what is wrong with the graph, with file and line
    wfdash up --reload workflows.py  # the dashboard, on this machine; it prints a sign-in link

In a container, behind a proxy that ends TLS:

    docker build -t $name .
    docker run -p 127.0.0.1:8000:8000 -v $name-data:/data -e WFDASH_HTTPS=1 \\
        -e WFDASH_HOSTS=flows.example.org,127.0.0.1 -e WFDASH_ORIGINS=https://flows.example.org $name

`workflows.py` has the workflow, `tests/` what it promises.
"""

IGNORED = """.venv/
__pycache__/
*.egg-info/
wfdash-data/
"""

READY = """{folder} is ready. Next:

  cd {folder}
  pip install -e ".[dev]"            # pytest and mypy; in a virtual environment
  pytest
  wfdash up --reload workflows.py"""

FILES = {
    "workflows.py": WORKFLOW,
    "tests/test_workflows.py": TESTS,
    "pyproject.toml": PROJECT,
    "Dockerfile": DOCKERFILE,
    ".dockerignore": IGNORED + "tests/\n.git/\n",
    ".gitignore": IGNORED,
    "README.md": README,
}


def _new(options: Namespace) -> int:
    folder = Path(options.name)
    if not NAME.fullmatch(folder.name):
        return print_error(f"{folder.name!r} is no name for a project: use small letters, digits, - and _", 2)
    if folder.exists() and any(folder.iterdir()):
        return print_error(f"{folder} exists and is not empty: nothing was written")
    for path, text in written(folder.name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    print(READY.format(folder=folder))
    return 0


def dependency() -> str:
    """Return what installs this wfdash: what is published, or the wheel or checkout that it was installed from."""
    found = json.loads(distribution("wfdash").read_text("direct_url.json") or "{}").get("url", "")
    return ADDRESS or (f"wfdash @ {found}" if found else f"wfdash=={__version__}")


def written(name: str) -> dict[str, str]:
    """Return the files of a new project: path -> text."""
    title = name.replace("-", " ").replace("_", " ").capitalize()
    wfdash = dependency()
    return {path: Template(text).substitute(name=name, title=title, wfdash=wfdash) for path, text in FILES.items()}


NEW = plain_command(
    "new",
    "make a folder with a workflow, its tests, packaging and a Dockerfile",
    _new,
    argument("name", "name of the project and its folder: small letters, digits, - and _"),
    needs_data=False,
)

"""What can be served is imported as Python would, and two files never share a module that only one of them means."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wfdash.engines import catalog
from wfdash.installation import workflow_sources

FLOW = """
from wfdash.workflow import Workflow
{extra}
wf = Workflow("{name}")

@wf.step(start=True)
def only(message: int) -> int:
    return message
"""


@pytest.fixture(autouse=True)
def _as_it_was(settings, monkeypatch) -> Iterator[None]:
    settings.WFDASH_APPS = []
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(workflow_sources, "_meant", {})
    before = set(sys.modules)
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def flow(path: Path, name: str, extra: str = "") -> str:
    return str(write(path, FLOW.format(name=name, extra=extra)))


def served(settings, *served: str) -> list[str]:
    settings.WFDASH_WORKFLOWS = list(served)
    return [entry.name for entry in catalog.entries()]


def test_a_file_imports_what_lies_beside_it(tmp_path, settings) -> None:
    write(tmp_path / "rates_beside.py", "RATE = 2\n")
    assert served(settings, flow(tmp_path / "uses.py", "uses", "from rates_beside import RATE")) == ["uses"]


def test_a_file_in_a_package_uses_relative_imports(tmp_path, settings) -> None:
    write(tmp_path / "bought" / "__init__.py", "")
    write(tmp_path / "bought" / "inner" / "__init__.py", "")
    write(tmp_path / "bought" / "rates.py", "RATE = 2\n")
    path = flow(tmp_path / "bought" / "inner" / "flows.py", "deep", "from ..rates import RATE")
    assert served(settings, path) == ["deep"]


def test_a_folder_serves_its_files_and_a_dotted_name_its_module(tmp_path, settings, monkeypatch) -> None:
    flow(tmp_path / "all" / "one.py", "one")
    flow(tmp_path / "all" / "two.py", "two")
    write(tmp_path / "sold" / "__init__.py", "")
    flow(tmp_path / "sold" / "workflows.py", "three")
    flow(tmp_path / "sold" / "more.py", "four")
    monkeypatch.chdir(tmp_path)
    assert sorted(served(settings, str(tmp_path / "all"), "sold", "sold.more")) == ["four", "one", "three", "two"]
    assert all(Path(catalog.location(entry)).is_file() for entry in catalog.entries())


@pytest.mark.parametrize("how", ["from mixed import RATE", "def later():\n    import mixed\n", "import between"])
def test_two_files_that_mean_two_modules_of_one_name_are_not_mixed_up(how: str, tmp_path, settings) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder / "mixed.py", f"RATE = {folder!r}\n")
    write(tmp_path / "b" / "between.py", "import mixed\n")
    first = flow(tmp_path / "a" / "flow_a.py", "first", "from mixed import RATE")
    assert served(settings, first, flow(tmp_path / "b" / "flow_b.py", "second", how)) == ["first"]
    (failure,) = catalog.failures()
    assert "flow_b.py imports 'mixed' and means" in failure.error
    assert "give one of the two another name" in failure.error


def test_one_module_of_one_folder_is_for_all_its_files(tmp_path, settings) -> None:
    write(tmp_path / "shared_rates.py", "RATE = 1\n")
    paths = [flow(tmp_path / f"{name}.py", name, "import shared_rates, json") for name in ("p", "q")]
    write(tmp_path / "json.py", "raise RuntimeError('not meant')\n")
    assert served(settings, *paths) == ["p", "q"]


def test_a_folder_s_tests_are_not_read_for_workflows(tmp_path, settings) -> None:
    flow(tmp_path / "flows" / "workflows.py", "shown")
    write(tmp_path / "flows" / "test_workflows.py", "from workflows import wf\nimport pytest_that_is_not_there\n")
    write(tmp_path / "flows" / "workflows_test.py", "raise RuntimeError('not meant')\n")
    write(tmp_path / "flows" / "setup.py", "raise SystemExit(2)\n")
    assert served(settings, str(tmp_path / "flows")) == ["shown"]
    assert catalog.failures() == []


SHARING = """
from wfdash.workflow import Workflow
from paying_shared import wf as paying

ordering = Workflow("ordering")

@ordering.step(start=True)
def begin(message: int) -> int:
    return message

ordering.sub("pay", paying, after=begin)
"""


@pytest.mark.parametrize("first", ["a_ordering", "z_ordering"])
@pytest.mark.parametrize("how", ["folder", "files", "package", "modules"])
def test_a_workflow_that_two_files_use_is_loaded_once(
    how: str, first: str, tmp_path, settings, monkeypatch, capsys
) -> None:
    folder = tmp_path / "sharing_flows"
    flow(folder / "paying_shared.py", "paying", "print('loaded')")
    within = "from sharing_flows." if how in {"package", "modules"} else "from "
    write(folder / f"{first}.py", SHARING.replace("from ", within, 2).replace(f"{within}wfdash", "from wfdash"))
    if how in {"package", "modules"}:
        write(folder / "__init__.py", "")
    monkeypatch.chdir(tmp_path)
    names = ("sharing_flows.paying_shared", f"sharing_flows.{first}") if how == "modules" else (str(folder),)
    if how == "files":
        names = (str(folder / f"{first}.py"), str(folder / "paying_shared.py"))
    assert sorted(served(settings, *names)) == ["ordering", "paying"]
    assert capsys.readouterr().out == "loaded\n"
    assert catalog.failures() == []
    assert Path(catalog.location(catalog.get("paying"))).name == "paying_shared.py"
    assert Path(catalog.location(catalog.get("ordering"))).name == f"{first}.py"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere.py", "nowhere.py does not exist"),
        ("some/where", "some/where does not exist"),
        ("no_such_module_anywhere", "no such file, folder or module"),
        ("notes.txt", "notes.txt is not a Python file"),
        ("empty", "empty has no Python files"),
        ("flow.py", ""),
        ("wfdash.examples", ""),
    ],
)
def test_what_cannot_be_served_is_said(text: str, words: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("notes.txt", "flow.py"):
        (tmp_path / name).write_text("")
    problem = workflow_sources.problem_of(text)
    assert words in problem
    assert bool(problem) is bool(words)


MODELS = """
from django.db import models

class Order(models.Model):
    number = models.IntegerField()
"""
USES = "from shop_of_ours.models import Order"
TRY = """
import django
django.setup()
from django.core.management import call_command
from wfdash.engines import catalog
call_command("makemigrations", "shop_of_ours", verbosity=0)
call_command("migrate", "shop_of_ours", verbosity=0)
from shop_of_ours.models import Order
Order.objects.create(number=1)
print([entry.name for entry in catalog.entries()], Order.objects.count(), [f.source for f in catalog.failures()])
"""


@pytest.mark.process
def test_a_django_app_brings_its_models_and_a_plain_package_needs_none(tmp_path: Path) -> None:
    for name, text in {"__init__": "", "models": MODELS, "migrations/__init__": ""}.items():
        write(tmp_path / "shop_of_ours" / f"{name}.py", text)
    flow(tmp_path / "shop_of_ours" / "workflows.py", "orders", USES)
    write(tmp_path / "plain_of_ours" / "__init__.py", "")
    flow(tmp_path / "plain_of_ours" / "workflows.py", "plain")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    env |= {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "WFDASH_DATA": str(tmp_path / "data")}
    env |= {
        "WFDASH_ASK_PEOPLE": "0",
        "WFDASH_APPS": "shop_of_ours,plain_of_ours,gone_of_ours",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-c", TRY]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert told.stdout.strip() == "['orders', 'plain'] 1 ['gone_of_ours']", told.stderr

"""The library in someone's Django project, by the page: three apps, its tables beside theirs, no dashboard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints.conformance import STORAGE, World

ROOT = Path(__file__).parents[2]
PAGE, CONTRACT = [(ROOT / "docs" / name).read_text() for name in ("storage.md", "internals/storage-contract.md")]
STORY = """
import asyncio, sys, django
django.setup()
from django.core.management import call_command
call_command("check", fail_level="WARNING")
call_command("migrate", verbosity=0)
import refunds
assert asyncio.run(refunds.approve(asyncio.run(refunds.start(80)))) == "approve"
assert not [name for name in sys.modules if name.startswith(("wfdash.web.pages", "wfdash.actions", "channels"))]
"""


@pytest.mark.parametrize("check", STORAGE, ids=lambda check: check.__name__)
async def test_the_storage_on_the_page_passes_the_suite(check: Callable[[World], Awaitable[None]]) -> None:
    (code,) = re.findall(r'```python title="dict_storage.py"\n(.*?)```', CONTRACT, re.DOTALL)
    names: dict[str, Any] = {"__name__": "dict_storage"}
    exec(compile(code, "dict_storage.py", "exec"), names)
    await check(World(names["DictStorage"]()))


@pytest.mark.process
def test_a_run_waits_in_the_tables_of_the_project_and_goes_on(tmp_path: Path) -> None:
    for name, text in re.findall(r'```python title="(\w+\.py)"\n(.*?)```', PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    env = kept | {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-W", "error", "-c", STORY]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr

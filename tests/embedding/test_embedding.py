"""The dashboard in a project with its own user model, sign-in, names of pages, templates and error pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest

from wfdash.installation.defaults import DEFAULTS

ROOT = Path(__file__).resolve().parents[2]


def environment(data: Path, **more: str) -> dict[str, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return env | {"DJANGO_SETTINGS_MODULE": "tests.embedding.settings", "EMBEDDING_DATA": str(data), **more}


@pytest.mark.process
@pytest.mark.parametrize(
    "more",
    [pytest.param({}, marks=pytest.mark.nightly), {"EMBEDDING_ALIAS": "workflows"}],
    ids=["default database", "own database"],
)
def test_the_dashboard_works_in_a_project_that_sets_nothing_for_it(tmp_path: Path, more: dict[str, str]) -> None:
    tell(environment(tmp_path, **more))


@pytest.mark.nightly
@pytest.mark.process
@pytest.mark.postgres
def test_it_works_with_runs_in_postgresql_under_atomic_requests(
    tmp_path: Path, postgres_server: dict[str, Any]
) -> None:
    server = {"host": postgres_server["HOST"], "user": postgres_server["USER"], "password": postgres_server["PASSWORD"]}
    with psycopg.connect(**server, dbname=postgres_server["NAME"], autocommit=True) as connection:
        connection.execute("CREATE DATABASE embedding")
    url = f"postgresql:///embedding?{urlencode(server)}"
    tell(environment(tmp_path, EMBEDDING_ALIAS="workflows", EMBEDDING_POSTGRES=url))


def tell(env: dict[str, str]) -> None:
    """Go through the story in a process of the project."""
    done = subprocess.run([sys.executable, "-m", "tests.embedding.story"], env=env, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr


@pytest.mark.process
def test_django_s_admin_needs_no_page_of_the_project_s_people(tmp_path: Path) -> None:
    env = environment(tmp_path, EMBEDDING_ADMIN="1")
    command = [sys.executable, "-m", "django", "check", "--fail-level", "ERROR"]
    done = subprocess.run(command, env=env, cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_setting_has_a_default_for_a_project() -> None:
    text = (ROOT / "wfdash" / "settings.py").read_text()
    own = {line.partition(" =")[0].partition(":")[0] for line in text.splitlines() if line.startswith("WFDASH_")}
    assert own - DEFAULTS.keys() == {"WFDASH_DATA_DIR"}

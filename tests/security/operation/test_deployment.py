"""What a server must not do in front of others, and what every answer must say."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.templatetags.static import static
from django.test import Client
from django.utils import timezone

from tests.keys import AUDIT_KEY
from wfdash import cli
from wfdash.cli import processes
from wfdash.web.http import PagesHandler

SCRIPT = """
import django; django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check", deploy=True, fail_level="DEBUG")
call_command("migrate", verbosity=0)
plain, secure = Client(), Client(HTTP_X_FORWARDED_PROTO="https")
for name, client in (("plain", plain), ("secure", secure)):
    for path in ("/sign-in/", "/livez"):
        answer = client.get(path, HTTP_HOST="flows.example.org")
        print(name, path, answer.status_code, answer.headers.get("Location"), *sorted(answer.cookies),
              answer.headers.get("Strict-Transport-Security"))
"""


@pytest.mark.process
def test_with_https_django_s_deployment_check_is_clean_and_nothing_goes_in_the_clear(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    own = {
        "WFDASH_DATA": str(tmp_path / "data"),
        "WFDASH_HTTPS": "1",
        "WFDASH_HOSTS": "flows.example.org",
        "WFDASH_URL": "https://flows.example.org",
        "WFDASH_AUDIT_KEY": AUDIT_KEY,
    }
    env = kept | own | {"DJANGO_SETTINGS_MODULE": "wfdash.settings"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
    lines = done.stdout.splitlines()[-4:]
    assert lines[0] == "plain /sign-in/ 301 https://flows.example.org/sign-in/ None"
    assert lines[1].startswith("plain /livez 200")
    assert lines[2] == "secure /sign-in/ 200 None __Host-csrftoken max-age=2592000"
    files = [path for path in (tmp_path / "data").iterdir() if path.is_file()]
    assert {path.name for path in files} >= {"secret_key", "wfdash.sqlite3"}
    assert [path.name for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


@pytest.mark.parametrize(
    "env", [{}, {"WFDASH_HOSTS": "*", "WFDASH_HTTPS": "1"}, {"WFDASH_HOSTS": "a.example", "WFDASH_DEBUG": "1"}]
)
def test_a_dangerous_start_is_refused_before_anything_is_made(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("WFDASH_HOSTS", "WFDASH_HTTPS", "WFDASH_DEBUG", "WFDASH_PLAIN_HTTP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["up", "--host", "0.0.0.0", "--data", str(tmp_path / "data")]) == 2
    assert "this server would be reachable by others" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("debug", [False, True])
def test_a_foreign_host_learns_nothing(debug: bool, settings: Any, db: None) -> None:
    settings.DEBUG = debug
    answer = Client().get("/", HTTP_HOST="evil.example")
    assert answer.status_code == 400
    assert answer.content == b"Unknown host"
    page = Client().get("/", headers={"host": "elsewhere.example", "accept": "text/html"}).content.decode()
    assert "<h1>" in page
    assert "href" not in page, "what this host would be asked for is refused, too"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["/api/v1/runs", "/api/v1/nowhere", "/nowhere/", "/api/v1/openapi.json", "/admin/", "/sign-in/nonsense/", "/runs/"],
)
@pytest.mark.parametrize("name", ["", "ana"])
def test_answers_and_errors_are_not_kept_by_anyone(path: str, name: str, as_: Callable[[str], Client]) -> None:
    assert "no-store" in as_(name).get(path).headers["Cache-Control"]


def test_static_files_have_the_policy_and_are_for_this_site_alone(db: None) -> None:
    answer = Client().get(static("img/logo.svg"))
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "no-store" not in answer.headers["Cache-Control"]
    answer.close()


async def test_bodies_that_are_too_large_are_refused_with_the_policy_too(settings: Any) -> None:
    settings.WFDASH_MAX_BODY = 10
    sent: list[dict[str, Any]] = []
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 11}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await PagesHandler()(scope, receive, send)
    assert sent[0]["status"] == 413
    assert b"Content-Security-Policy" in dict(sent[0]["headers"])


def test_who_reads_the_table_of_sessions_cannot_use_them(as_: Callable[[str], Client]) -> None:
    client = as_("ana")
    stored = Session.objects.get().session_key
    assert stored != client.cookies["sessionid"].value
    thief = Client()
    thief.cookies["sessionid"] = stored
    assert thief.get("/").status_code == 302
    assert client.get("/").status_code == 200
    client.post("/sign-out/")
    assert not Session.objects.filter(session_key=stored).exists()


def test_a_link_is_printed_to_a_terminal_or_before_anyone_has_signed_in(db: None) -> None:
    boss = User.objects.create_superuser("boss")
    assert "/sign-in/" in processes.sign_in_text("boss", "http://localhost:8000", terminal=False)
    User.objects.filter(pk=boss.pk).update(last_login=timezone.now())
    assert processes.sign_in_text("boss", "http://localhost:8000", terminal=False).endswith("wfdash signin boss")
    assert "/sign-in/" in processes.sign_in_text("boss", "http://localhost:8000", terminal=True)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only=1")
        text = processes.sign_in_text("boss", "http://localhost:8000", terminal=True)
        cursor.execute("PRAGMA query_only=0")
    assert text.startswith("No sign-in link, because the database cannot be used: attempt to write a readonly database")
    assert text.endswith("wfdash signin boss")


def test_the_backup_in_the_documentation_is_private() -> None:
    text = (Path(__file__).parents[3] / "docs" / "backup.md").read_text()
    (line,) = (line.strip() for line in text.splitlines() if "pg_dump -Fc -f" in line)
    assert line.startswith("(umask 077; pg_dump ")  # what wfdash backup makes is tested in tests/cli

"""Exports and their proof need little memory, however long the audit is, and prove as much as one made in memory."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone

from checkpoints.models import AuditEntry, Shown
from checkpoints.models.fields import current_keyring
from wfdash.access.viewer import Viewer
from wfdash.actions import audit as audit_actions
from wfdash.domain import hash_chain
from wfdash.queries import audit

pytestmark = pytest.mark.django_db

ENTRIES, PAGE = 400, 20_000
MEGABYTES = 5
"""What an export may hold at a time. Together the pages have eight."""


@pytest.fixture
def long(person: Callable[..., Viewer]) -> Viewer:
    """Record many acts, each on a page of its own; give an administrator."""
    admin, rows = person("root", "admin"), []
    with transaction.atomic():
        for n in range(ENTRIES):
            page = f"<p>{n}</p>".ljust(PAGE, "é" if n % 2 else "x")
            digest = sha256(page.encode()).hexdigest()
            audit_actions.record(
                admin, "answer", request=f"r{n % 7}", facts={"page": digest, "via": "page", "reason": "ü" * 50}
            )
            rows.append(
                Shown(id=f"r{n % 7}:page:{digest}", request=f"r{n % 7}", kind="page", body=page, at=timezone.now())
            )
        Shown.objects.bulk_create(rows)
    return admin


@contextmanager
def little_memory() -> Iterator[None]:
    """Fail if more is held in the meantime than an export may hold."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTES * 1_000_000, f"{peak:,} bytes were held"


def digest_of(pack: dict[str, Any]) -> str:
    """Return what a pack's signature signs, computed from all of it at once, as for packs of earlier versions."""
    told = {name: value for name, value in pack.items() if name not in {"signature", "shown"}}
    shown = {name: sha256(body.encode()).hexdigest() for name, body in sorted(pack["shown"].items())}
    return sha256(json.dumps([told, shown], sort_keys=True).encode()).hexdigest()


def test_a_long_audit_is_exported_and_proven_in_little_memory(long: Viewer, tmp_path: Path) -> None:
    path = tmp_path / "pack.json"
    list(audit.pack(long, "verb:none", exported=timezone.now()))  # What is loaded once is no matter of length.
    with little_memory(), path.open("wb") as file:
        for piece in audit.pack(long, exported=timezone.now()):
            file.write(piece)
    assert path.stat().st_size > ENTRIES * PAGE
    with little_memory():
        proof = hash_chain.prove_pack(path.open, keys=current_keyring())
    assert not proof.breaks
    assert len(proof.entries) == AuditEntry.objects.count() >= ENTRIES
    pack = json.loads(path.read_text())
    assert current_keyring().flaw(pack["signature"], "pack", digest_of(pack)) == ""
    assert len(pack["shown"]) == ENTRIES


def test_a_long_audit_is_sent_as_csv_in_little_memory(long: Viewer) -> None:
    AuditEntry.objects.update(facts={"reason": "x" * PAGE})
    client = Client()
    client.force_login(long.user)
    with little_memory():
        answer = client.get("/audit/export.csv?q=verb:answer")
        lines = sum(piece.count(b"\r\n") for piece in answer)
    assert lines == ENTRIES + 1


def test_a_pack_is_proven_in_whatever_order_its_parts_stand(long: Viewer, tmp_path: Path) -> None:
    pack = json.loads(b"".join(audit.pack(long, exported=timezone.now())))
    path = tmp_path / "pack.json"
    path.write_text(json.dumps(dict(reversed(pack.items())), indent=1))
    call_command("verify", str(path), stdout=io.StringIO())


def test_a_part_that_stands_twice_does_not_hide_the_other(long: Viewer, tmp_path: Path) -> None:
    pack = json.loads(b"".join(audit.pack(long, "verb:export", exported=timezone.now())))
    path = tmp_path / "pack.json"
    path.write_text(json.dumps(pack).replace('"shown": {}', '"shown": {}, "entries": []'))
    with pytest.raises(CommandError, match="twice"):
        call_command("verify", str(path))


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("text", ["after:yesterday", "colour:red"])
def test_a_refused_export_sends_and_records_nothing(long: Viewer, kind: str, text: str) -> None:
    client = Client()
    client.force_login(long.user)
    assert client.get(f"/audit/export.{kind}?q={text}").status_code == 422
    assert not AuditEntry.objects.filter(verb="export").exists()


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_too_many_entries_are_refused_before_anything_is_sent(long: Viewer, kind: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(audit, "MOST_EXPORTED", 100)
    client = Client()
    client.force_login(long.user)
    answer = client.get(f"/audit/export.{kind}")
    assert answer.status_code == 422
    assert "Narrow the filter" in answer.content.decode()
    assert client.get(f"/audit/export.{kind}?q=verb:export").status_code == 200


def test_portions_stay_below_their_size_unless_one_is_bigger() -> None:
    sizes = [("a", 4), ("b", 6), ("c", 1), ("d", 50), ("e", 1)]
    assert list(audit.in_portions(sizes, most=10)) == [["a", "b"], ["c"], ["d"], ["e"]]

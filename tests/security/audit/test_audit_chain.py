"""Anyone who can write to the database or to an exported pack, and has no key, cannot change the audit unseen."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from checkpoints.content.pickles import keyring_of
from checkpoints.models import AuditEntry, AuditHead, Shown
from tests import people
from wfdash.actions import audit as audit_actions
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import pause_run, resume_run
from wfdash.domain.hash_chain import hash_of
from wfdash.queries import audit

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided() -> None:
    """Let four people's acts be recorded, the first of them on something shown."""
    people.make_people()
    run = people.make_run()
    asked = people.ask(run, "Pay 900?")
    page = "<p>Pay 900?</p>"
    answer_request(people.viewer("ana"), asked.pk, {"action": "approve"}, via="page", page=page)
    for verb in (pause_run, resume_run, pause_run):
        verb(people.viewer("otto"), run.pk)


def verify(*arguments: Any) -> str:
    """Return what the command says, or why it fails."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("verify", *map(str, arguments), stdout=out, stderr=err)
    except CommandError as error:
        return f"{err.getvalue()}{error}"
    return out.getvalue()


def signed_end(n: int, digest: str) -> str:
    return keyring_of("some-key-that-is-not-the-installation's").sign("head", str(n), digest)


def cut(count: int) -> None:
    last = AuditEntry.objects.get(n=4 - count)
    AuditEntry.objects.filter(n__gt=4 - count).delete()
    AuditHead.objects.update(n=last.n, hash=last.hash)


def rewrite(*, signed: bool) -> None:
    """Blame someone else, and chain everything again as the code does."""
    before, keys = "", keyring_of("some-key-that-is-not-the-installation's")
    for entry in AuditEntry.objects.order_by("n"):
        entry.prev, entry.actor = before, "mallory"
        before = hash_of(audit.exported_form(entry))
        signature = keys.sign("entry", str(entry.n), before) if signed else ""
        told = {"prev": entry.prev, "actor": "mallory", "hash": before, "signature": signature}
        AuditEntry.objects.filter(n=entry.n).update(**told)
    signature = signed_end(4, before) if signed else ""
    AuditHead.objects.update(n=4, hash=before, signature=signature)


def alter_card() -> None:
    row = Shown.objects.get(kind="card")
    told = json.loads(row.body)
    told["card"]["subject"] = "Pay 9?"
    row.body = json.dumps(told)
    row.save()


def alter_page() -> None:
    row = Shown.objects.get(kind="page")
    row.body = "<p>Pay 9?</p>"
    row.save()


DATABASE: dict[str, tuple[Callable[[], Any], str]] = {
    "end cut, head set": (lambda: cut(1), "signature that does not hold"),
    "end cut, head signed by another key": (
        lambda: (cut(1), AuditHead.objects.update(signature=signed_end(3, AuditEntry.objects.get(n=3).hash))),
        "which is not set",
    ),
    "head deleted": (lambda: AuditHead.objects.all().delete(), "the chain head was removed"),
    "all deleted": (lambda: (AuditEntry.objects.all().delete(), AuditHead.objects.all().delete()), "was removed"),
    "all deleted, head begun anew": (
        lambda: (AuditEntry.objects.all().delete(), AuditHead.objects.update(n=0, hash="", signature="")),
        "is not signed",
    ),
    "rewritten, unsigned": (lambda: rewrite(signed=False), "is not signed"),
    "rewritten, signed by another key": (lambda: rewrite(signed=True), "which is not set"),
    "card altered": (alter_card, "entry 1: the card differs from the one shown"),
    "page altered": (alter_page, "entry 1: the page differs from the one shown"),
    "shown deleted": (lambda: Shown.objects.all().delete(), "entry 1: what was shown is missing"),
}


@pytest.mark.parametrize("attack", DATABASE)
def test_what_is_done_to_the_database_is_found_and_stays_found(decided: None, attack: str) -> None:
    assert "4 entries, the chain holds" in verify()
    change, words = DATABASE[attack]
    change()
    assert words in verify()
    # The next act does not cover it up.
    audit_actions.record(people.viewer("otto"), "tag")
    assert "do not verify" in verify()


def pack_file(tmp_path: Path, change: Callable[[dict[str, Any]], Any] | None = None, name: str = "pack") -> Path:
    """Export as an administrator does, change it, and return the file."""
    from django.utils import timezone

    pack = json.loads(b"".join(audit.pack(people.viewer("adam"), exported=timezone.now())))
    if change:
        change(pack)
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(pack))
    return path


def rechain(pack: dict[str, Any]) -> None:
    """Blame someone else, and compute every hash again."""
    before = ""
    for entry in pack["entries"]:
        entry["prev"], entry["actor"] = before, "mallory"
        before = entry["hash"] = hash_of(entry)
    pack["head"]["hash"] = before


def show_otherwise(pack: dict[str, Any]) -> None:
    """Give an entry another page, with the hash that fits it."""
    key = next(key for key in pack["shown"] if ":page:" in key)
    page = "<p>Pay 9?</p>"
    digest = sha256(page.encode()).hexdigest()
    pack["shown"][f"{key.rsplit(':', 1)[0]}:{digest}"] = page
    pack["entries"][0]["facts"]["page"] = digest
    rechain(pack)


PACK: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "end cut": (lambda pack: pack["entries"].pop(), "the end is missing"),
    "end cut, head set": (
        lambda pack: (pack["entries"].pop(), pack.update(head={"n": 3, "hash": pack["entries"][-1]["hash"]})),
        "the pack has a signature that does not hold",
    ),
    "middle cut": (lambda pack: (pack["entries"].pop(1), pack.update(whole=False)), "the pack has gaps"),
    "middle cut, filter named": (
        lambda pack: (pack["entries"].pop(1), pack.update(whole=False, filter="verb:answer")),
        "the pack has a signature",
    ),
    "shown emptied": (lambda pack: pack["shown"].clear(), "entry 1: what was shown is missing"),
    "by": (lambda pack: pack.update(by="mallory"), "the pack has a signature"),
    "exported": (lambda pack: pack.update(exported="2020-01-01T00:00:00+00:00"), "the pack has a signature"),
    "all chained anew": (rechain, "entry 1: it has a signature that does not hold"),
    "shown and chained anew": (show_otherwise, "has a signature that does not hold"),
    "unsigned": (lambda pack: pack.pop("signature"), "the pack is not signed"),
    "called an older pack": (lambda pack: pack.update(format="wfdash-audit/1"), "--without-key"),
}


@pytest.mark.parametrize("attack", PACK)
def test_what_is_done_to_a_pack_is_found(decided: None, tmp_path: Path, attack: str) -> None:
    assert "4 entries, the chain holds" in verify(pack_file(tmp_path))
    change, words = PACK[attack]
    assert words in verify(pack_file(tmp_path, change))


def test_without_the_key_hashes_and_links_can_still_be_checked(decided: None, tmp_path: Path, settings: Any) -> None:
    path, cut_short = pack_file(tmp_path), pack_file(tmp_path, lambda pack: pack["entries"].pop(), "cut")
    settings.WFDASH_AUDIT_KEY = "the-key-of-somebody-else-altogether"
    assert "which is not set" in verify(path)
    assert "hashes and links only" in verify(path, "--without-key")
    assert "the end is missing" in verify(cut_short, "--without-key")


def test_a_later_pack_goes_on_from_an_earlier_one(decided: None, tmp_path: Path) -> None:
    old = pack_file(tmp_path, name="old")
    audit_actions.record(people.viewer("otto"), "tag")
    new = pack_file(tmp_path, name="new")
    assert "5 entries, the chain holds" in verify(old, new)
    assert "the newer pack ends earlier" in verify(new, old)
    other = pack_file(tmp_path, rechain, "other")
    assert "replaced by another entry in the newer pack" in verify(old, other, "--without-key")


def test_a_reader_of_a_part_exports_a_pack_that_says_so(decided: None, tmp_path: Path) -> None:
    from django.utils import timezone

    path = tmp_path / "own.json"
    path.write_bytes(b"".join(audit.pack(people.viewer("ana"), exported=timezone.now())))
    assert "1 entries, the chain holds" in verify(path)


def test_a_noted_end_shows_that_an_old_database_was_put_back(decided: None) -> None:
    early = AuditHead.objects.values().get()
    audit_actions.record(people.viewer("otto"), "tag")
    noted = AuditEntry.objects.get(n=5)
    assert "5 entries, the chain holds" in verify(f"--head=5:{noted.hash}")
    # The end of then has a signature that holds: only what was noted elsewhere tells.
    noted.delete()
    AuditHead.objects.update(**{name: early[name] for name in ("n", "hash", "signature")})
    assert "4 entries, the chain holds" in verify()
    assert "entry 5: missing" in verify(f"--head=5:{noted.hash}")


def test_an_anchor_shows_that_an_old_database_or_pack_was_put_back_or_that_it_was_made_up(
    decided: None, tmp_path: Path
) -> None:
    from django.utils import timezone

    early, pack, file = AuditHead.objects.values().get(), tmp_path / "pack.json", tmp_path / "anchors.jsonl"
    pack.write_bytes(b"".join(audit.pack(people.viewer("adam"), exported=timezone.now())))
    audit_actions.record(people.viewer("otto"), "tag")
    heads = list(AuditEntry.objects.order_by("n").values("n", "hash", "signature"))[-2:]
    file.write_text("".join(json.dumps(head) + "\n" for head in heads))
    assert "the chain holds" in verify(f"--anchor={file}")
    assert "entry 5: the newer pack ends earlier" in verify(pack, f"--anchor={file}")
    AuditEntry.objects.get(n=5).delete()
    AuditHead.objects.update(**{name: early[name] for name in ("n", "hash", "signature")})
    assert "entry 5: missing" in verify(f"--anchor={file}")
    file.write_text(json.dumps(heads[0] | {"signature": heads[1]["signature"]}))
    assert "its anchor has a signature that does not hold" in verify(f"--anchor={file}")
    file.write_text("[]")
    assert "is no file of anchors" in verify(f"--anchor={file}")


def test_the_end_is_logged_once_a_day(decided: None, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(audit_actions, "_logged_on", None)
    caplog.set_level("INFO", "wfdash.actions.audit")
    audit_actions.log_head()
    audit_actions.log_head()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == f"The audit has 4 entries and ends with {AuditHead.objects.get().hash}"


def test_entries_from_before_signing_are_proven_by_those_that_follow(decided: None) -> None:
    AuditEntry.objects.filter(n__lte=2).update(signature="")
    assert "4 entries, the chain holds" in verify()
    AuditEntry.objects.update(signature="")
    assert "4 entries, the chain holds" in verify(), "the signed end proves them until there is an act"
    audit_actions.record(people.viewer("otto"), "tag")
    assert "5 entries, the chain holds" in verify()
    AuditEntry.objects.filter(n=2).update(actor="mallory")
    assert "entry 2: the entry was changed" in verify()


def test_an_unsigned_entry_after_a_signed_one_is_found(decided: None) -> None:
    AuditEntry.objects.filter(n=3).update(signature="")
    assert "entry 3: it is not signed" in verify()


def test_a_new_key_goes_on_where_the_old_one_is_still_listed(decided: None, settings: Any) -> None:
    old = settings.WFDASH_AUDIT_KEY
    settings.WFDASH_AUDIT_KEY = f"a-new-key-that-signs-from-now-on-4711,{old}"
    audit_actions.record(people.viewer("otto"), "tag")
    assert "5 entries, the chain holds" in verify()
    settings.WFDASH_AUDIT_KEY = "a-new-key-that-signs-from-now-on-4711"
    assert "entry 4: it is signed with key" in verify()
    assert "5 entries, the chain holds" in verify("--from=5")


def test_a_lost_key_is_recorded_and_acts_go_on(decided: None, settings: Any) -> None:
    settings.WFDASH_AUDIT_KEY = "a-new-key-that-signs-from-now-on-4711"
    audit_actions.record(people.viewer("otto"), "tag")
    assert list(AuditEntry.objects.filter(n__gt=4).values_list("n", "verb")) == [(5, "chain broken"), (6, "tag")]
    assert "6 entries, the chain holds" in verify("--from=6")


def test_the_page_shows_what_was_found(decided: None, client: Client) -> None:
    AuditHead.objects.all().delete()
    audit_actions.record(people.viewer("otto"), "tag")
    client.force_login(people.make_people()["adam"])
    assert "The end of the chain is not signed" in client.get("/audit/5/").content.decode()

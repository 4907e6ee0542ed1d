from __future__ import annotations

from pathlib import Path

import pytest

from wfdash.notifications import push
from wfdash.notifications.letters import HEADLINES, headline
from wfdash.notifications.preferences import KINDS


@pytest.fixture(autouse=True)
def data(settings, tmp_path: Path) -> Path:
    settings.WFDASH_DATA_DIR, settings.WFDASH_PUSH_KEY = tmp_path, ""
    return tmp_path


def test_a_key_is_made_once_and_only_its_owner_can_read_it(data: Path) -> None:
    first = push.public_key()
    file = data / "push_key"
    assert file.stat().st_mode & 0o077 == 0
    assert push.public_key() == first
    assert [path.name for path in data.iterdir()] == ["push_key"]


def test_of_two_processes_that_make_a_key_at_once_the_first_one_s_stays(data: Path) -> None:
    (data / "push_key").write_text(push.encoded(b"\x01" * 32))
    push._make(data / "push_key")
    assert push.private_key() == b"\x01" * 32


def test_a_key_of_the_settings_makes_no_file(settings, data: Path) -> None:
    settings.WFDASH_PUSH_KEY = push.encoded(b"\x02" * 32)
    assert len(push.decoded(push.public_key())) == 65
    assert list(data.iterdir()) == []


@pytest.mark.parametrize("text", ["short", "é" * 43, "A" * 44, "====", "-----BEGIN PRIVATE KEY-----"])
def test_what_is_no_key_is_refused_by_name_and_not_repeated(settings, text: str) -> None:
    settings.WFDASH_PUSH_KEY = text
    with pytest.raises(ValueError, match="WFDASH_PUSH_KEY is not a private VAPID key") as caught:
        push.private_key()
    assert text not in str(caught.value)


def test_every_kind_has_its_words() -> None:
    assert KINDS.keys() <= HEADLINES.keys()
    assert headline("mentioned", {"by": "ben", "subject": "Pay 900?"}) == "ben mentioned you: Pay 900?"
    decided = {"verdict": "approve", "subject": "Pay 900?"}
    assert headline("decided", {**decided, "by": "ben"}) == "Approved by ben: Pay 900?"
    assert headline("decided", decided) == "Approved by its deadline: Pay 900?"
    assert headline("decided", {**decided, "verdict": "ask_again", "by": "ben"}) == "Ask again by ben: Pay 900?"


def test_a_headline_is_one_line_whatever_a_workflow_writes() -> None:
    line = headline("opened", {"subject": "a\r\nBcc: x@example.org\x00 {by} \u202e" + "b" * 300})
    assert "\n" not in line
    assert "\u202e" not in line
    assert len(line) <= 200
    assert line.startswith("Review requested: a Bcc: x@example.org {by}")

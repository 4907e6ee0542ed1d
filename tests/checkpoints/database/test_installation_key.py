"""A database knows the keys of its content: who lacks one of them neither serves it nor writes to it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from checkpoints.database import storage
from checkpoints.database.installation_key import check_keys, content_flaws, refuse_other_keys, rotate
from checkpoints.errors import InvalidConfig
from checkpoints.models import AuditEntry, Run
from checkpoints.models.user_model import User
from tests.people import make_run
from wfdash.actions.audit import record
from wfdash.cli.doctor.database import readable_content

pytestmark = pytest.mark.django_db
OLD, NEW, OTHER = (f"{word}-secret-long-enough-to-be-a-key" for word in ("old", "new", "other"))
LACKS = "is encrypted with key"


def use(settings: Any, keys: str) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = keys


@pytest.mark.parametrize("keys", ["", OTHER, f"{OTHER},plain"])
def test_a_process_without_the_key_is_refused(keys: str, settings: Any) -> None:
    use(settings, OLD)
    check_keys()
    use(settings, keys)
    for refuses in (check_keys, refuse_other_keys):
        with pytest.raises(ImproperlyConfigured, match=LACKS):
            refuses()
    with pytest.raises(CommandError, match=LACKS):
        call_command("signin", "ana")


@pytest.mark.parametrize("keys", ["", OLD])
def test_what_was_stored_before_keys_were_noted_says_which_they_are(keys: str, settings: Any) -> None:
    use(settings, keys)
    make_run(input={"order": "A-7"})
    use(settings, OTHER)
    with pytest.raises(ImproperlyConfigured, match="add plain to the list" if not keys else LACKS):
        check_keys()
    use(settings, keys)
    check_keys()


def test_encryption_is_turned_on_by_plain_and_a_rotation(settings: Any) -> None:
    use(settings, "")
    check_keys()
    make_run(input={"order": "A-7"})
    use(settings, NEW)
    with pytest.raises(ImproperlyConfigured, match="add plain to the list"):
        check_keys()
    use(settings, f"{NEW},plain")
    check_keys()
    use(settings, NEW)
    with pytest.raises(ImproperlyConfigured, match="add plain to the list"):
        check_keys()
    use(settings, f"{NEW},plain")
    assert rotate("default").left == []
    use(settings, NEW)
    check_keys()


def test_a_key_stays_needed_until_nothing_is_left_under_it(settings: Any) -> None:
    use(settings, OLD)
    check_keys()
    first, second = make_run(input={"order": "A-7"}), make_run(input={"order": "A-8"})
    use(settings, "")
    Run.objects.filter(pk=first.pk).update(input={"order": "forged"})
    use(settings, f"{NEW},{OLD}")
    check_keys()
    err = io.StringIO()
    with pytest.raises(CommandError, match=r"Not finished: keep every key(.|\n)*not encrypted"):
        call_command("rotate_keys", stdout=err)
    assert "run" in err.getvalue(), "all others are under the new key"
    use(settings, NEW)
    assert Run.objects.get(pk=second.pk).input == {"order": "A-8"}
    with pytest.raises(ImproperlyConfigured, match=LACKS):
        check_keys()
    Run.objects.filter(pk=first.pk).delete()
    use(settings, f"{NEW},{OLD}")
    call_command("rotate_keys", verbosity=0)
    use(settings, NEW)
    check_keys()


def test_doctor_and_readiness_read_content(settings: Any, client: Any) -> None:
    use(settings, OLD)
    make_run(input={"order": "A-7"})
    assert [one.severity for one in readable_content()] == ["ok"]
    assert "ok keys: content can be read" in client.get("/readyz").content.decode()
    use(settings, OTHER)
    (found,) = readable_content()
    assert found.severity == "problem"
    assert LACKS in found.why
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "FAILED keys: content cannot be read" in ready.content.decode()


def verify() -> tuple[int, str]:
    err = io.StringIO()
    try:
        call_command("verify", stdout=io.StringIO(), stderr=err)
    except CommandError as error:
        return error.returncode, f"{err.getvalue()}\n{error}"
    return 0, ""


def test_a_missing_key_is_not_an_alteration(settings: Any) -> None:
    use(settings, OLD)
    for n in range(3):
        record(None, "start", facts={"n": n})
    assert verify()[0] == 0
    use(settings, OTHER)
    code, words = verify()
    assert (code, "entry 2" in words, "altered" in words) == (2, True, False)
    assert "missing" not in words
    assert LACKS in words
    AuditEntry.objects.filter(n=2).update(prev="0" * 64)
    code, words = verify()
    assert (code, "entry 2: it does not match the previous entry" in words) == (1, True)


@pytest.mark.parametrize("facts", [{"n": 9}, {"sealed": "wfdash-sealed:deadbeef:AAAA"}])
def test_what_no_key_of_the_installation_encrypted_is_an_alteration(facts: dict[str, Any], settings: Any) -> None:
    use(settings, OLD)
    check_keys()
    record(None, "start", facts={"n": 1})
    AuditEntry.objects.update(actor="mallory", facts=facts)
    code, words = verify()
    assert (code, "1 do not verify" in words) == (1, True)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_recorded_by_a_process_without_the_keys(settings: Any, monkeypatch: Any) -> None:
    use(settings, OLD)
    check_keys()
    use(settings, "")
    monkeypatch.setattr(storage, "_readable", set())
    with pytest.raises(InvalidConfig, match=LACKS):
        call_command("createsuperuser", interactive=False, username="eve", email="eve@example.org")
    assert not User.objects.filter(username="eve").exists()


def test_content_of_another_key_is_a_flaw(settings: Any) -> None:
    use(settings, OLD)
    make_run(input={"order": "A-7"})
    assert content_flaws() == []
    use(settings, OTHER)
    assert any(LACKS in flaw for flaw in content_flaws())

from __future__ import annotations

import csv
import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.models import AuditEntry, Grant
from tests import people
from tests.pages.markup import flat
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import pause_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided(client: Client):
    everybody = people.make_people()
    run = people.make_run(created_by=everybody["sam"])
    asked = people.ask(run, "Pay 900?", policy={"need": 1, "by": ["finance"]}, by=["finance"])
    page = "<p>Pay 900?</p>"
    answer_request(people.viewer("ana"), asked.id, {"action": "approve"}, via="page", page=page)
    pause_run(people.viewer("otto"), run.id)
    return run, asked


def get(client: Client, name: str, address: str, status: int = 200) -> str:
    client.force_login(people.make_people()[name])
    response = client.get(address)
    body = response.getvalue().decode()
    assert response.status_code == status, body[:500]
    return body


def test_an_operator_reads_who_did_what_by_which_right_and_what_was_shown(client, decided) -> None:
    page = get(client, "otto", "/audit/")
    assert "Approved: Pay 900?" in page
    assert "Pause" in page
    entry = get(client, "otto", "/audit/1/")
    assert "group finance" in entry
    assert "Pay 900?" in entry
    assert "Decided by finance" in entry
    assert "<p>Pay 900?</p>" in get(client, "otto", "/audit/1/shown/")


HOSTILE = "Pay 900\u202e000.1\x1b[2J\x1b]8;;http://x\x07"


def test_no_text_of_a_card_or_a_person_deceives_in_events_the_audit_its_record_or_exports(client) -> None:
    everybody = people.make_people()
    run = people.make_run(created_by=everybody["sam"])
    asked = people.ask(run, HOSTILE)
    people.happen(run, ("request.opened", "review", {"request": asked.pk, "key": asked.key, "subject": HOSTILE}))
    answer_request(people.viewer("ana"), asked.id, {"action": "approve"}, reason=HOSTILE)
    pages = ["/audit/", "/audit/1/", "/audit/export.csv", "/audit/export.json"]
    pages += [f"/runs/{run.pk}/events/", f"/runs/{run.pk}/audit/"]
    for address in pages:
        text = get(client, "adam", address)
        assert "Pay 900" in text
        assert not {"\u202e", "\x1b", "\x07"} & set(text), address
    client.force_login(everybody["adam"])
    for kind in ("csv", "jsonl"):
        exported = b"".join(client.post("/runs/export/", {"kind": kind})).decode()
        assert "Expenses" in exported or "Pay 900" in exported
        assert not {"\u202e", "\x1b", "\x07"} & set(exported), kind
    packed = json.loads(get(client, "adam", "/audit/export.json"))
    assert packed["entries"][0]["facts"]["subject"] == HOSTILE
    assert packed["entries"][0]["facts"]["reason"] == "Pay 900[U+202E]000.1␛[2J␛]8;;http://x␇"


def test_a_reviewer_sees_own_acts_only_and_a_stranger_none(client, decided) -> None:
    assert "Pay 900?" in get(client, "ana", "/audit/")
    assert "Pause" not in get(client, "ana", "/audit/")
    assert get(client, "ben", "/audit/1/", 404)
    page = get(client, "ben", "/audit/")
    assert page.count('class="audit-what lines"') == page.count("Signed in")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *[("actor:ana", 1), ("verb:pause", 1), ("after:2020-01-01", 3), ("before:2020-01-01", 0)],
        *[("actor:ana pause", 0), ("actor:ana,otto", 2), ("-actor:ana,otto", 1), ("-pause", 2), ("actor:me", 1)],
        *[("at:today", 3), ("at:<1d", 3), ("at:>1d", 0), ("at:>=2020-01-01 verb:pause", 1), ("workflow:exp*", 2)],
        *[('verb:"pause"', 1), ("after:2020-01-01T10:00:00", 3), ("verb:PAUSE", 0)],
    ],
)
def test_the_record_is_filtered(client, decided, text, found) -> None:
    assert get(client, "adam", f"/audit/?q={text}").count('class="audit-what lines"') == found


def test_the_box_suggests_what_occurs_in_entries_one_may_see(client, decided) -> None:
    found = json.loads(get(client, "otto", "/audit/suggestions/"))
    assert {value["value"] for value in found["values"]["actor"]} == {"me", "ana", "otto"}
    assert {"answer", "pause"} <= {value["value"] for value in found["values"]["verb"]}
    assert "otto" not in get(client, "ana", "/audit/suggestions/")


@pytest.mark.parametrize("text", ["colour:red", "after:yesterday"])
def test_a_filter_that_is_none_is_named(client, decided, text) -> None:
    assert text.split(":")[0] in get(client, "adam", f"/audit/?q={text}", 422)


def test_the_pack_proves_itself_and_betrays_whatever_is_changed(client, decided, tmp_path) -> None:
    pack = json.loads(get(client, "adam", "/audit/export.json"))
    assert pack["whole"]
    path = tmp_path / "pack.json"

    def verify() -> None:
        path.write_text(json.dumps(pack))
        call_command("verify", str(path))

    verify()
    kept = dict(pack["shown"])
    for key in kept:
        pack["shown"] = kept | {key: kept[key].replace("900", "9")}
        with pytest.raises(CommandError, match="do not verify"):
            verify()
    pack["shown"] = kept
    pack["entries"][0]["facts"]["verdict"] = "reject"
    with pytest.raises(CommandError, match="altered"):
        verify()
    path.write_text("{}")
    with pytest.raises(CommandError, match="not an audit pack"):
        call_command("verify", str(path))


def test_a_selection_proves_its_entries_alone(client, decided, tmp_path) -> None:
    text = get(client, "otto", "/audit/export.json?q=verb:pause")
    assert not json.loads(text)["whole"]
    (tmp_path / "pack.json").write_text(text)
    call_command("verify", str(tmp_path / "pack.json"))


def test_csv_has_a_row_per_act_and_no_cell_that_runs(client, decided) -> None:
    run, _ = decided
    asked = people.ask(run, "=cmd()")
    answer_request(people.viewer("ana"), asked.id, {"action": "reject", "reason": "+1"})
    rows = list(csv.DictReader(io.StringIO(get(client, "adam", "/audit/export.csv"))))
    assert [row["verb"] for row in rows] == ["answer", "pause", "answer", "sign in", "export"]
    assert (rows[2]["subject"], rows[2]["reason"], rows[2]["stands"]) == ("'=cmd()", "'+1", "rejected")


def test_the_record_of_a_run_is_one_page(client, decided) -> None:
    run, _ = decided
    page = get(client, "otto", f"/runs/{run.id}/audit/")
    assert "1. Approved: Pay 900?" in page
    assert "2. Pause" in page
    assert get(client, "sam", f"/runs/{run.id}/audit/", 404)


def test_the_chain_in_the_database_is_proven_by_a_command(decided, capsys) -> None:
    call_command("verify")
    assert "2 entries, the chain holds" in capsys.readouterr().out


def test_the_record_of_a_run_takes_as_many_queries_whatever_was_decided(client, decided) -> None:
    def count(run: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            get(client, "otto", f"/runs/{run}/audit/")
        return len(queries)

    run, _ = decided
    get(client, "otto", f"/runs/{run.id}/audit/")
    before = count(run.id)
    for number in range(5):
        asked = people.ask(run, f"Pay {number}?")
        answer_request(people.viewer("ana"), asked.id, {"action": "approve"}, via="page", page=f"<p>{number}</p>")
    assert count(run.id) == before


def test_a_role_for_all_workflows_is_said_in_words_and_links_to_none(client, decided) -> None:
    Grant.objects.create(user=people.make_people()["sam"], role="viewer", workflow="*")
    assert '<span class="small muted">all workflows</span>' in flat(get(client, "adam", "/audit/"))
    entry = get(client, "adam", f"/audit/{AuditEntry.objects.get(workflow='*').n}/")
    assert "all workflows" in entry
    assert 'href="/workflows/*/"' not in entry

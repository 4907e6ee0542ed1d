"""Commands that administer the data directory itself: accounts, groups, roles, tokens, old runs."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import AuditEntry, Run, RunFact
from tests import people
from wfdash.access.signin.tokens import use_token
from wfdash.domain.errors import BadToken

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def everybody(here):
    people.make_people()


def test_accounts_groups_and_roles_are_made_listed_and_taken_away(everybody, say):
    status, shown, _ = say("person", "add", "nora", "--group", "finance", "--role", "viewer:expense")
    assert (status, "no role" in shown) == (0, False)
    assert "wfdash grant add ROLE lea" in say("person", "add", "lea")[1]
    assert "token create robot" in say("person", "add", "robot", "--service", "--about", "Import")[1]
    rows = {row["name"]: row for row in json.loads(say("person", "list", "--json")[1])}
    assert rows["nora"]["roles"] == ["viewer:expense"]
    assert rows["robot"]["kind"] == "service account"
    assert say("group", "add", "night", "nora")[1] == "Group night made\n"
    assert say("group", "join", "night", "robot")[1] == "robot is now in night\n"
    assert say("group", "leave", "night", "nora")[0] == 0
    assert {"name": "night", "members": ["robot"]} in json.loads(say("group", "list", "--json")[1])
    assert say("grant", "add", "operator:expense", "--group", "night")[0] == 0
    assert "operator  expense" in say("grant", "list")[1]
    assert say("grant", "remove", "operator:expense", "--group", "night")[0] == 0
    assert say("grant", "remove", "viewer:expense", "nora")[0] == 0
    assert say("group", "remove", "night")[0] == 0
    assert say("person", "disable", "nora")[1] == "nora is deactivated\n"
    assert "nora" not in say("person", "list")[1]
    assert "nora" in say("person", "list", "--all")[1]
    assert say("person", "enable", "nora")[0] == 0
    assert {entry.actor for entry in AuditEntry.objects.all()} == {"command line"}


def test_a_token_is_printed_alone_listed_without_its_secret_and_revoked(everybody, say):
    status, text, words = say(
        "token", "create", "ana", "ci", "--rights", "see,answer", "--workflow", "a", "--days", "7"
    )
    assert status == 0
    assert text.count("\n") == 1
    assert "only now" in words
    token = use_token(text.strip())
    assert (token.owner.get_username(), token.rights, token.workflows) == ("ana", ["answer", "see"], ["a"])
    assert AuditEntry.objects.latest("n").actor == "command line"
    listed = say("token", "list")[1]
    assert token.pk in listed
    assert text.strip().split("_", 2)[2] not in listed
    assert json.loads(say("token", "list", "ana", "--json")[1])[0]["state"] == "usable"
    assert say("token", "revoke", token.pk)[:2] == (0, "Revoked ci of ana\n")
    with pytest.raises(BadToken):
        use_token(text.strip())
    assert say("token", "list")[1] == "No tokens\n"
    assert "revoked" in say("token", "list", "--all")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("person", "add", "ana"), "already"),
        (("person", "add", "nora", "--role", "boss"), "Choose one of"),
        (("person", "disable", "nobody"), "Person not found"),
        (("person", "disable", "adam"), "no admin"),
        (("group", "add", "finance"), "already"),
        (("group", "remove", "nowhere"), "Group not found"),
        (("grant", "add", "operator", "nobody"), "No active user"),
        (("grant", "remove", "operator", "ana"), "by a grant of their own"),
        (("apply", "/nowhere.toml"), "No such file"),
        (("token", "create", "nobody", "ci"), "No active account named nobody"),
        (("token", "create", "ana", "ci", "--rights", "fly"), "rights: Choose among"),
        (("token", "create", "ana", "ci", "--days", "soon"), "or never"),
        (("token", "revoke", "nothing"), "Token not found"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(everybody, say, arguments, words):
    status, _, problem = say(*arguments)
    assert status == 1
    assert words in problem


def test_a_file_is_applied_and_its_flaws_are_named_with_their_lines(everybody, say, tmp_path):
    file = tmp_path / "people.toml"
    file.write_text('[people.nora]\nroles = ["viewer"]\n')
    assert say("apply", str(file), "--dry-run")[1].endswith("2 changes (nothing was changed)\n")
    assert say("apply", str(file))[1].endswith("2 changes\n")
    assert say("apply", str(file))[1] == "0 changes\n"
    file.write_text("[people.nora]\nrole = 'viewer'\n")
    assert "line 2: unknown key role of nora" in say("apply", str(file))[2]


@pytest.fixture
def runs(settings, tmp_path) -> list[str]:
    """Return the ids of two old runs that go; a third one has the tag ``keep``."""
    settings.WFDASH_KEEP_RUNS, settings.WFDASH_ARCHIVE = {"*": 30, "ledger": None}, str(tmp_path)
    made = []
    for workflow in ("claims", "refund", "refund", "ledger"):
        run, ended = ids.new_run_id(), timezone.now() - timedelta(days=40)
        facts = {"phase": "failed", "created": ended, "updated": ended, "finished": ended}
        made.append(Run.objects.create(id=run, family=run, workflow=workflow, **facts))
    RunFact.objects.create(run=made[2], name="tag", text="keep", created=made[2].created)
    return [run.pk for run in made[:2]]


def test_what_would_go_is_said_and_then_removed_and_read_from_the_archive(say, runs, tmp_path):
    status, text, _ = say("retention", "show")
    assert (status, text.splitlines()[0]) == (0, "Ended runs are kept: 30 days, ledger: forever")
    assert [line.split()[:3] for line in text.splitlines()[2:4]] == [["claims", "30", "1"], ["refund", "30", "1"]]
    assert text.splitlines()[-1] == "1 older ones stay because of the tag keep"
    found = json.loads(say("retention", "show", "--json")[1])
    assert (found["keep"], found["runs"], found["kept"]) == ({"*": 30, "ledger": None}, 2, {"the tag keep": 1})
    assert Run.objects.count() == 4
    assert say("retention", "remove")[1] == "Removed 2 runs, 2 rows\n"
    assert Run.objects.count() == 2
    assert AuditEntry.objects.get().facts["runs"] == runs
    (file,) = map(str, tmp_path.iterdir())
    assert [line.split()[0] for line in say("retention", "read", file)[1].splitlines()] == ["RUN", *runs]
    assert json.loads(say("retention", "read", file, "--run", runs[0])[1])["content"]["run"]["workflow"] == "claims"
    assert say("retention", "read", file, "--run", "nowhere")[::2] == (1, "No file has the run nowhere\n")
    assert "No run would be removed" in say("retention", "show")[1]


def test_without_a_rule_the_commands_say_that_all_is_kept(say, runs, settings):
    settings.WFDASH_KEEP_RUNS = None
    assert say("retention", "show")[1] == "WFDASH_KEEP_RUNS is not set: ended runs are kept forever\n"
    assert say("retention", "remove")[::2] == (1, "WFDASH_KEEP_RUNS is not set: ended runs are kept forever\n")


def test_a_file_that_is_no_archive_is_refused_with_its_name(say, tmp_path):
    assert "nowhere.jsonl" in say("retention", "read", str(tmp_path / "nowhere.jsonl"))[2]
    (tmp_path / "x").write_text("[]\n")
    assert "x, line 1 is no archived run" in say("retention", "read", str(tmp_path / "x"))[2]

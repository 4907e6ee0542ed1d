from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from checkpoints.models import Answer, AuditEntry, Comment, HumanRequest, Reply
from tests import people
from tests.documentation.test_types import ROOT, blocks_of
from wfdash.values.schemas.secrets import HIDDEN

PROPOSED, DECIDED = {"amount": 900, "iban": "DE89 3704"}, {"amount": 800, "iban": "DE89 3704"}
FORM = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["approve", "edit", "reject"]},
        "edited": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}, "iban": {"type": "string", "writeOnly": True}},
        },
    },
}


@pytest.fixture
def decided(question) -> HumanRequest:
    """A proposal that Ana edited, after Ben had said something."""
    ana, ben = (User.objects.get(username=name) for name in ("ana", "ben"))
    card = {**question.card, "proposal": PROPOSED}
    HumanRequest.objects.filter(pk=question.pk).update(card=card, answer_schema=FORM)
    people.answered(question, ana, "edit")
    value = {"action": "edit", "edited": DECIDED}
    Reply.objects.filter(request=question).update(value=value, reason="One night less")
    Answer.objects.filter(request=question).update(value=value)
    Comment.objects.create(id="c1", request=question, by=ben, text="Too much", at=people.THEN + timedelta(minutes=1))
    return HumanRequest.objects.get(pk=question.pk)


def lines(response) -> list[dict]:
    assert response.status_code == 200
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def test_a_data_set_has_proposal_edit_and_words_without_secrets_and_names(decided, as_):
    (found,) = lines(as_("otto").get("/api/v1/decisions/export"))
    assert (found["id"], found["outcome"], found["version"]) == (decided.pk, "edited", decided.run.version)
    assert found["edit"] == [{"op": "replace", "path": "/amount", "value": 800}]
    assert (found["reason"], found["answered_by"]) == ("One night less", "finance")
    assert [(one["by"], one["text"]) for one in found["comments"]] == [("", "Too much")]
    assert "DE89" not in json.dumps(found)
    # A secret is hidden in what people wrote, too.
    Reply.objects.filter(request=decided).update(reason="Not to DE89 3704")
    Comment.objects.filter(pk="c1").update(text="Is DE89 3704 hers?")
    (found,) = lines(as_("otto").get("/api/v1/decisions/export"))
    assert (found["reason"], found["comments"][0]["text"]) == (f"Not to {HIDDEN}", f"Is {HIDDEN} hers?")
    facts = AuditEntry.objects.latest("n").facts
    assert (facts["what"], facts["kind"]) == ("decisions", "jsonl")


def test_names_are_in_it_only_where_they_are_asked_for_and_the_audit_says_so(decided, as_):
    (found,) = lines(as_("otto").get("/api/v1/decisions/export?names=true"))
    assert (found["answered_by"], found["comments"][0]["by"]) == ("ana", "ben")
    assert AuditEntry.objects.latest("n").facts["what"] == "decisions with names"


def test_it_has_what_a_filter_finds_and_no_workflow_whose_values_one_may_not_read(decided, as_):
    otto = as_("otto")
    assert lines(otto.get("/api/v1/decisions/export?q=outcome:rejected")) == []
    assert otto.get("/api/v1/decisions/export?q=outcome:odd").status_code == 422
    assert lines(as_("sam").get("/api/v1/decisions/export")) == []


def test_the_page_exports_what_it_lists(decided, as_):
    otto = as_("otto")
    assert b'action="/decisions/export/"' in otto.get("/decisions/").content
    assert b"/decisions/export/" not in as_("ana").get("/decisions/").content
    assert [one["id"] for one in lines(otto.post("/decisions/export/", {"q": "step:review"}))] == [decided.pk]


def test_the_recipe_of_the_docs_finds_where_a_prompt_would_have_differed(decided, as_, tmp_path):
    (recipe,) = blocks_of(ROOT / "docs/datasets.md")
    names: dict[str, Any] = {}
    exec(recipe, names)
    found = lines(as_("otto").get("/api/v1/decisions/export"))
    file = tmp_path / "decisions.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in found))
    assert names["differing"](str(file), lambda card: "edit") == []
    assert names["differing"](str(file), lambda card: "approve") == found

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from checkpoints.models import Answer, AuditEntry, HumanRequest, Reply, Run
from tests import people
from wfdash.access.signin import tokens
from wfdash.access.viewer import maker_of
from wfdash.actions.account import create_token, revoke_token
from wfdash.actions.people.accounts import create_service_account
from wfdash.actions.people.roles import grant_role
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.schedules import SchedulePlan, create_schedule
from wfdash.domain.errors import AlreadyAnswered, NotAllowed
from wfdash.queries.account import notices
from wfdash.queries.audit import visible_entries
from wfdash.queries.requests.request import may_answer

API = reverse("wfdash:api:openapi-json").removesuffix("openapi.json")
CLAIMS = {"claims": "train.csv"}
EVERYTHING = ["see", "inspect", "answer", "start", "code", "operate", "admin"]


def token(owner: str, *, rights=EVERYTHING, workflows=("*",)) -> str:
    return create_token(people.viewer(owner), "ci", rights=rights, workflows=workflows).text


def bearer(text: str, **options: bool) -> Client:
    return Client(headers={"Authorization": f"Bearer {text}"}, **options)


def approve(client: Client, request_id: str) -> int:
    value = {"value": {"action": "approve"}}
    return client.post(f"{API}requests/{request_id}/answer", value, content_type="application/json").status_code


def test_a_program_answers_with_a_token_and_no_csrf(question, everybody):
    assert approve(bearer(token("ana"), enforce_csrf_checks=True), question.pk) == 200
    assert Reply.objects.get().by == everybody["ana"]
    entry = AuditEntry.objects.latest("n")
    assert (entry.verb, entry.actor, entry.facts["token"]) == ("answer", "ana", "ci")


@pytest.mark.parametrize("text", ["", "wfd_nothing", "Bearer x"])
def test_a_bad_token_is_401_also_beside_a_session(text, run, as_):
    client = as_("adam")
    answer = client.get(f"{API}runs/{run.pk}", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert client.get(f"{API}runs/{run.pk}").status_code == 200


def test_without_anything_it_says_how_to_sign_in(run):
    answer = Client().get(f"{API}runs/{run.pk}")
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_too_many_bad_tokens_are_429_with_the_time_to_wait(run, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_BAD", 1)
    assert bearer("wrong").get(f"{API}runs").status_code == 401
    answer = bearer("wrong").get(f"{API}runs")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0


def test_a_token_acts_as_its_owner_not_as_who_is_signed_in(question, as_):
    client = as_("vera")
    value = {"value": {"action": "approve"}}
    answer = client.post(
        f"{API}requests/{question.pk}/answer",
        value,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token('ana')}"},
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/", "/runs/", "/settings/", "/people/", "/admin/", "/audit/"])
def test_no_page_is_opened_with_a_token(path, everybody):
    assert bearer(token("adam")).get(path).status_code == 302


def test_a_token_of_another_workflow_sees_nothing_of_this_one(question, run):
    Run.objects.filter(pk=run.pk).update(created_by=people.viewer("otto").user)
    client = bearer(token("otto", workflows=["another"]))
    assert client.get(f"{API}runs/{run.pk}").status_code == 404
    assert client.get(f"{API}requests/{question.pk}").status_code == 404
    assert client.get(f"{API}runs").json()["items"] == []
    for tab in ("mine", "groups", "unassigned", "asked", "snoozed", "all", "answered"):
        assert client.get(f"{API}requests?tab={tab}").json()["items"] == []
    assert approve(client, question.pk) == 404


def test_an_assignment_gives_no_right_beyond_the_scopes(question, everybody):
    type(question).objects.filter(pk=question.pk).update(assignee=everybody["ana"], by=["nobody"])
    assert approve(bearer(token("ana", rights=["see"])), question.pk) == 403
    assert not Reply.objects.exists()


def test_a_token_that_may_only_read_changes_nothing(question, everybody):
    client = bearer(token("otto", rights=["see", "inspect"]))
    assert client.get(f"{API}requests/{question.pk}").status_code == 200
    for path in (f"requests/{question.pk}/comments", f"runs/{question.run_id}/cancel", "runs", "schedules"):
        answer = client.post(f"{API}{path}", {}, content_type="application/json")
        assert answer.status_code in {403, 404}, path
    assert client.delete(f"{API}runs/{question.run_id}").status_code == 403


def test_a_token_reads_no_audit_entry_of_its_owner_beyond_its_scopes(question, everybody):
    assert approve(bearer(token("ana")), question.pk) == 200
    limits = {"see": ["see", "answer"], "elsewhere": ["inspect"], "here": ["inspect"], "all": EVERYTHING}
    found = {}
    for name, rights in limits.items():
        given = {"elsewhere": ["another"], "here": [question.workflow]}.get(name, ["*"])
        text = create_token(people.viewer("ana"), name, rights=rights, workflows=given).text
        viewer = tokens.viewer_of(tokens.use_token(text))
        found[name] = set(visible_entries(viewer).values_list("verb", flat=True))
    assert found == {"see": set(), "elsewhere": set(), "here": {"answer"}, "all": {"answer", "create token"}}


def test_a_token_that_may_neither_answer_nor_inspect_reads_no_card(question, everybody):
    text = token("ana", rights=["see"])
    assert set(bearer(text).get(f"{API}requests/{question.pk}").json()["card"]) == {"subject"}
    revoke_token(people.viewer("ana"), text.split("_")[1])
    assert "risk" in bearer(token("ana", rights=["answer"])).get(f"{API}requests/{question.pk}").json()["card"]


def test_a_revoked_token_ends_at_once(run):
    text = token("vera")
    client = bearer(text)
    assert client.get(f"{API}runs/{run.pk}").status_code == 200
    revoke_token(people.viewer("vera"), text.split("_")[1])
    assert client.get(f"{API}runs/{run.pk}").status_code == 401


def test_what_belongs_to_no_workflow_is_beyond_a_limited_token(everybody):
    limited = tokens.viewer_of(tokens.use_token(token("otto", rights=["see", "answer"])))
    with pytest.raises(NotAllowed, match="limits"):
        notices(limited)
    assert not notices(tokens.viewer_of(tokens.use_token(token("ana")))).items


def test_using_a_token_costs_one_query_more_than_a_session_less_its_own(run, as_, django_assert_max_num_queries):
    client = bearer(token("vera"))
    client.get(f"{API}runs/{run.pk}")
    with django_assert_max_num_queries(7):
        client.get(f"{API}runs/{run.pk}")


@pytest.fixture
def robot(everybody) -> people.Viewer:
    """Return a service account that reviews and operates, with a token that Adam made."""
    adam = people.viewer("adam")
    create_service_account(adam, "robot")
    grant_role(adam, "operator", person="robot")
    return tokens.viewer_of(tokens.use_token(create_token(adam, "ci", rights=EVERYTHING, owner="robot").text))


def asked(**facts):
    return people.ask(people.make_run(created_by=people.viewer("otto").user), **facts)


def test_who_made_the_token_of_a_service_account_counts_as_requester_of_its_runs(robot):
    assert Run.objects.get(pk=start_run(robot, "expense_batch", CLAIMS).pk).requesters == ["adam"]
    assert start_run(tokens.viewer_of(tokens.use_token(token("adam"))), "expense_batch", CLAIMS).requesters is None
    schedule = create_schedule(robot, "expense_batch", SchedulePlan(name="s", cron="@daily", message=CLAIMS))
    assert schedule.authors == ["adam", "robot"]


def test_a_service_account_answers_nothing_that_who_made_its_token_may_not(robot):
    run = people.make_run(created_by=people.viewer("adam").user)
    for not_by in (["requester"], ["adam"], ["finance"]):
        request = people.ask(run, not_by=not_by, policy={"override": True})
        if not_by == ["finance"]:
            Group.objects.get(name="finance").user_set.add(people.viewer("adam").user)
            robot = robot.with_token("ci", robot.within, maker_of(people.viewer("adam").user.pk))
        assert request.pk not in HumanRequest.objects.filter(may_answer(robot)).values_list("pk", flat=True)
        for override in (False, True):
            with pytest.raises(NotAllowed, match="second person"):
                answer_request(robot, request.pk, {"action": "approve"}, override=override, reason="urgent")


def test_a_service_account_has_no_vote_beside_that_of_the_person_who_made_its_token(robot):
    two, other = asked(policy={"need": 2}), asked(policy={"need": 2})
    assert answer_request(robot, two.pk, {"action": "approve"}).acting_for == "adam"
    with pytest.raises(AlreadyAnswered, match="as or on behalf of adam"):
        answer_request(people.viewer("adam"), two.pk, {"action": "approve"})
    answer_request(people.viewer("adam"), other.pk, {"action": "approve"})
    with pytest.raises(AlreadyAnswered, match="as or on behalf of adam"):
        answer_request(robot, other.pk, {"action": "approve"})
    with pytest.raises(NotAllowed, match="that of the person who made its token"):
        answer_request(robot, other.pk, {"action": "approve"}, on_behalf_of="ana", reason="on the phone")
    reply = answer_request(robot, asked().pk, {"action": "approve"})
    assert (reply.acting_for, Answer.objects.get(request=reply.request).others) == ("", '["adam"]')

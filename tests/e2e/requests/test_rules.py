"""Two people and a rule: one makes it of what people decided, the other switches it on; it answers, and is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.desk import PEOPLE, START, add_people, full, look, start
from tests.e2e.looks import check_page
from tests.e2e.moves import LATER, act
from tests.e2e.requests.test_deciding import go_to
from tests.e2e.server import Server, serving, shell, wait_until

HISTORY = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from checkpoints import ids
from checkpoints.models import Answer, HumanRequest, Run
[known] = HumanRequest.objects.all()
for number in range(25):
    at, run = timezone.now() - timedelta(days=30 - number), known.run
    run.pk = run.family = run.id = ids.new_run_id()
    run.phase = "completed"
    run.save(force_insert=True)
    known.pk = known.id = ids.new_request_id()
    known.run, known.created, known.answered, known.closed = run, at, at, at
    known.card = known.card | {"proposal": {"customer": "Kim", "amount": 50 + number, "note": ""}}
    known.save(force_insert=True)
    verdict = "reject" if number == 24 else "approve"
    value = {"action": verdict, "reason": "no"}
    Answer.objects.create(request=known, by=User.objects.get(username="ana"), verdict=verdict, value=value, at=at)
"""
LATER_ON = """
from datetime import timedelta
from checkpoints.models import Rule
from django.db.models import F
Rule.objects.update(since=F("since") - timedelta(days=8))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The gate alone, with people of whom three operate."""
    data, file = tmp_path_factory.mktemp("rules") / "data", Path(__file__).parents[1] / "gates.py"
    with serving(Server(data, files=[file], template=sqlite_template, undo=60)) as served:
        add_people(served)
        shell(served, PEOPLE.format(people=[("otis", "operator", []), ("omar", "operator", [])]))
        yield served


def test_two_people_let_a_rule_answer_and_a_third_ends_it(person: OpenPage, server: Server, troubles: Troubles) -> None:
    troubles.expect("422")
    asked = {"subject": "Refund 60 to Kim?", "refund": {"customer": "Kim", "amount": 60}}
    (waiting,) = start(server, asked, by="omar")
    shell(server, HISTORY)
    olga, otis, ana = person("olga"), person("otis"), person("ana")
    olga.goto(f"/requests/{look(server, waiting)['open'][0]}/similar/?tab=all")
    expect(olga.get_by_role("main")).to_contain_text("24 similar requests approved, none changed")
    olga.get_by_role("link", name="Make a rule").click()
    check_page(olga, "rules")
    # The address has a fragment: the browser scrolls there, and the focus is on what is wrong all the same.
    olga.get_by_label("Condition").fill("proposal.amonut:<100")
    olga.keyboard.press("Enter")
    expect(olga.locator("#rule-condition[aria-invalid]")).to_be_focused()
    olga.get_by_label("Condition").fill("proposal.amount:<74")
    olga.get_by_role("button", name="Make the rule").press("Enter")
    expect(olga.get_by_role("heading", level=1)).to_have_text("Rule r1: approve")
    olga.get_by_role("button", name="Rehearse").press("Enter")
    expect(olga.get_by_role("main")).to_contain_text("It would have answered 24: people decided 24 the same way.")
    check_page(olga, "rule")
    olga.get_by_role("button", name="Run beside people").press("Enter")
    stored = "from checkpoints.models import Rule\nprint(Rule.objects.get().state)"
    wait_until(lambda: shell(server, stored).strip() == "shadow", what="a rule beside people")
    # Beside people: they decide, and see nothing of it.
    (beside,) = start(server, {"refund": {"customer": "Kim", "amount": 55}, "policy": {"undo": 0}}, by="omar")
    assert not settled(server, beside)
    go_to(ana, server, beside)
    expect(ana.get_by_role("main")).not_to_contain_text("r1")
    act(ana, "approve")
    wait_until(lambda: look(server, beside)["phase"] == "completed", what="a decided run")
    compared = "from checkpoints.models import RuleUse\nprint(*RuleUse.objects.values_list('kind', 'agrees'))"
    wait_until(lambda: shell(server, compared).strip() == "('shadow', True)", what="a comparison")
    shell(server, LATER_ON)
    otis.goto("/rules/1/")
    otis.get_by_role("button", name="Switch on").press("Enter")
    expect(otis.get_by_role("main")).to_contain_text("Switched on by")
    # The first of the day is its sample: people decide it. The next one the rule answers, and anyone who may, undoes.
    start(server, {"subject": "A sample?", "refund": {"customer": "Kim", "amount": 51}}, by="omar")
    (answered,) = start_quietly(server)
    wait_until(lambda: look(server, answered)["replies"], what="a rule's answer")
    ana.goto(f"/requests/{look(server, answered)['requests'][0]}/")
    expect(ana.get_by_role("main")).to_contain_text("rule r1 approved this")
    ana.get_by_title("Undoing it suspends the rule").click()
    otis.goto("/rules/1/")
    expect(otis.get_by_role("main")).to_contain_text("ana undid its answer", timeout=LATER)
    check_page(otis, "rule-suspended")


def start_quietly(server: Server) -> list[str]:
    """Start runs until one is not the sample."""
    for _ in range(6):
        asked = [full({"refund": {"customer": "Kim", "amount": 52}})]
        (run,) = shell(server, START.format(by="omar", workflow="gate", messages=asked)).split()
        wait_until(lambda run=run: look(server, run)["requests"], what="a request")
        if settled(server, run):
            return [run]
    raise AssertionError("Six in a row were samples")


def settled(server: Server, run: str) -> bool:
    """Return whether a rule answered a run's request once it was asked of rules: it is announced, or answered."""
    told = f"from checkpoints.models import HumanRequest\nprint(HumanRequest.objects.get(run={run!r}).told)"
    wait_until(lambda: look(server, run)["replies"] or shell(server, told).strip() != "None", what="a look at rules")
    return bool(look(server, run)["replies"])

"""One decision for many: each on its own, in its own transaction, with its own record."""

from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, HumanRequest, Reply
from tests import people
from tests.queries.test_queries import run as run
from wfdash.actions.requests.answer import answer_batch, answer_request, undo_batch
from wfdash.domain.errors import Invalid
from wfdash.queries.requests.batch import MOST_VALUES, compare, flatten, flattened, paired, read_similar_requests

APPROVE = {"action": "approve"}


def refund(run, number: int, **facts) -> HumanRequest:
    card = {"subject": f"Refund {number}?", "proposal": {"amount": number, "to": "card"}, "actions": people.ACTIONS}
    return people.ask(run, card=card, **facts)


def shown(name: str, request: HumanRequest, **where) -> list[tuple[str, str]]:
    """Return what a person's table shows: request and fingerprint."""
    return [(row.id, row.seen) for row in read_similar_requests(people.viewer(name), request.pk, **where).rows]


def test_each_of_a_batch_has_its_own_reply_and_its_own_record(run):
    requests = [refund(run, number) for number in range(5)]
    ana = people.viewer("ana")
    outcomes = answer_batch(ana, shown("ana", requests[0]), APPROVE, verdict="approve", page="<table>")
    assert all(one.reply is not None and one.problem == "" for one in outcomes)
    assert Reply.objects.filter(via="batch", by=ana.user, settles__isnull=False).count() == 5
    entries = AuditEntry.objects.filter(verb="answer")
    assert {entry.request for entry in entries} == {request.pk for request in requests}
    assert {entry.facts["via"] for entry in entries} == {"batch"}


def test_what_was_answered_or_changed_in_the_meantime_stays_and_is_told(run):
    answered, changed, fine = (refund(run, number) for number in range(3))
    table = shown("ana", fine)
    answer_request(people.viewer("ben"), answered.pk, APPROVE)
    changed.card = {**changed.card, "body": "something new"}
    changed.save(update_fields=["card"])
    outcomes = {one.request: one for one in answer_batch(people.viewer("ana"), table, APPROVE)}
    assert outcomes[answered.pk].kind == "AlreadyAnswered"
    assert "ben" in outcomes[answered.pk].problem
    assert outcomes[changed.pk].kind == "Changed"
    assert outcomes[fine.pk].reply is not None
    changed.refresh_from_db()
    assert changed.settles is changed.answered is None


def test_high_risks_and_what_its_author_forbids_are_decided_alone(run):
    risky, alone, fine = refund(run, 1, risk=3), refund(run, 2, policy={"batch": False}), refund(run, 3)
    table = read_similar_requests(people.viewer("ana"), fine.pk)
    assert [bool(row.refusal) for row in table.rows] == [True, True, False]
    everything = [(row.id, row.seen) for row in table.rows]
    outcomes = answer_batch(people.viewer("ana"), everything, APPROVE)
    assert [one.reply is not None for one in outcomes] == [False, False, True]
    assert "High risk" in outcomes[0].problem
    assert HumanRequest.objects.filter(pk__in=[risky.pk, alone.pk], settles__isnull=True).count() == 2


def test_nothing_is_decided_that_was_not_shown(run):
    (outcome,) = answer_batch(people.viewer("ana"), [(refund(run, 1).pk, "")], APPROVE)
    assert outcome.kind == "Invalid"
    (outcome,) = answer_batch(people.viewer("ana"), [("nonsense", "x")], APPROVE)
    assert outcome.kind == "NotFound"


def test_an_answer_that_does_not_fit_is_refused_for_each(run):
    request = refund(run, 1)
    (outcome,) = answer_batch(people.viewer("ana"), shown("ana", request), {"action": "reject"})
    assert outcome.kind == "Invalid"
    assert not Reply.objects.exists()


def test_an_empty_batch_is_refused(run):
    with pytest.raises(Invalid):
        answer_batch(people.viewer("ana"), [], APPROVE)


def test_a_batch_is_taken_back_as_a_whole(run, settings):
    requests = [refund(run, number) for number in range(3)]
    ana = people.viewer("ana")
    answer_batch(ana, shown("ana", requests[0]), APPROVE)
    assert undo_batch(ana, [request.pk for request in requests]) == (3, 0)
    assert undo_batch(ana, [request.pk for request in requests]) == (0, 3)
    assert HumanRequest.objects.filter(settles__isnull=True, answered__isnull=True).count() == 3


def test_the_table_holds_what_is_alike_and_mine_to_answer(run, everybody):
    first, other = refund(run, 1), refund(run, 2)
    refund(run, 3, step="elsewhere"), refund(run, 4, by=["cfo"]), refund(run, 5, answer_schema={"type": "string"})
    people.answered(refund(run, 6), everybody["ben"])
    found = read_similar_requests(people.viewer("ana"), first.pk)
    assert [row.id for row in found.rows] == [first.pk, other.pk]
    assert found.left == 1
    assert [row.id for row in read_similar_requests(people.viewer("ana"), first.pk, text='"Refund 2"').rows] == [
        other.pk
    ]


def test_only_what_differs_becomes_a_column(run):
    first = refund(run, 1)
    refund(run, 2)
    found = read_similar_requests(people.viewer("ana"), first.pk)
    assert found.columns == (("subject",), ("proposal", "amount"))
    assert found.same == {("proposal", "to"): "card"}
    assert [row.values[("proposal", "amount")] for row in found.rows] == [1, 2]


def test_cards_are_flattened_by_what_they_say():
    card = {
        "subject": "s",
        "context": {"a": {"b": {"c": 1}}, "list": [1, 2]},
        "evidence": [{"title": "Order", "value": {"n": 1}}, {"value": 2}, "odd"],
        "actions": ["not compared"],
    }
    assert flatten(card) == {
        ("subject",): "s",
        ("context", "a", "b"): {"c": 1},
        ("context", "list"): [1, 2],
        ("evidence", "Order", "n"): 1,
        ("evidence", "evidence 2"): 2,
    }


def test_what_one_has_and_another_has_not_differs():
    columns, same = compare([{("a",): 1, ("b",): None}, {("a",): 1}])
    assert columns == ()
    assert same == {("a",): 1, ("b",): None}
    assert compare([{("a",): 1}, {}])[0] == (("a",),)


def titled(*titles: str) -> dict[tuple[str, ...], str]:
    return {("evidence", title): f"of {title}" for title in titles}


def test_evidence_that_each_request_titles_by_itself_is_one_column() -> None:
    cards = paired([titled("Policy", "Other claims of Ana"), titled("Policy", "Other claims of Ben Lind")])
    assert [list(card) for card in cards] == [[("evidence", "Policy"), ("evidence", "Other claims")]] * 2
    assert cards[1]["evidence", "Other claims"] == "of Other claims of Ben Lind"


@pytest.mark.parametrize(
    ("titles", "columns"),
    [
        ([["A", "B"], ["C", "D"]], {"evidence 1", "evidence 2"}),
        ([["Bill of Ana"], ["Bill"], ["Bill"], ["Bill of Ben"]], {"Bill", "evidence 1"}),
        ([["Bill of Ana", "Bill from May"], ["Bill of Ben", "Bill from June"]], {"Bill", "evidence 2"}),
        ([["Bill of Ana"], []], {"Bill of Ana"}),
        ([["Bill of Ana"]], {"Bill of Ana"}),
        ([[], []], set()),
    ],
)
def test_no_evidence_hides_another(titles: list[list[str]], columns: set[str]) -> None:
    cards = paired([titled(*named) for named in titles])
    assert {path[1] for card in cards for path in card} == columns
    assert [len(card) for card in cards] == [len(named) for named in titles]


def test_a_card_of_very_many_facts_is_compared_by_larger_parts(run) -> None:
    wide = {f"k{number}": number for number in range(40_000)}
    cards = [{"subject": "a", "proposal": {"amount": 1, "lines": wide}}, {"subject": "b", "proposal": {"amount": 2}}]
    first, *_ = (people.ask(run, card={**card, "actions": people.ACTIONS}) for card in cards)
    found = read_similar_requests(people.viewer("ana"), first.pk)
    assert found.columns == (("subject",), ("proposal", "amount"), ("proposal", "lines"))
    assert found.rows[0].values["proposal", "lines"] == wide
    broad = [{"proposal": wide}, {"proposal": {**wide, "k0": 7}}]
    assert compare(flattened(broad))[0] == (("proposal",),)
    titled = {"evidence": [{"title": f"t{number}", "value": number} for number in range(400)]}
    assert compare(flattened([titled, {}]))[0] == (("evidence",),)


@pytest.mark.parametrize("size", [30_000, 900_000])
def test_cards_that_are_too_large_for_one_table_follow_later(run, size: int) -> None:
    inner = "x" * size * 2 if size > MOST_VALUES else [0] * size
    asked = [people.ask(run, card={"subject": f"n{n}", "proposal": inner, "actions": people.ACTIONS}) for n in range(6)]
    last = read_similar_requests(people.viewer("ana"), asked[-1].pk)
    shown = [row.id for row in last.rows]
    assert 2 <= len(shown) < 6
    assert shown[-1] == asked[-1].pk
    assert last.left == 6 - len(shown)

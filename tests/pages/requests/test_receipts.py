"""Answers that are signed with a passkey: nothing else is taken, at no door, and a receipt proves what was decided."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from checkpoints.models import Answer, AuditEntry, Draft, HumanRequest, Receipt, Reply
from tests import people
from tests.conftest import threads_of
from tests.security.audit.test_audit_chain import pack_file, verify
from tests.signin.authenticator import Authenticator, add_passkey, making, to_sign
from wfdash.access.signin import second_factor
from wfdash.actions.account import create_token
from wfdash.actions.audit import check_chain
from wfdash.actions.requests.answer import answer_batch, answer_request, undo_answer
from wfdash.actions.requests.answer_links import answer_by_link, answer_link
from wfdash.actions.requests.finalize import finalize_answer
from wfdash.cli import main
from wfdash.domain.errors import NotAllowed, WrongState
from wfdash.domain.hash_chain import hash_of
from wfdash.domain.receipts import flaw_of

SIGNED = {"sign": "passkey", "meaning": "review"}
APPROVE = {"_action": "approve"}


@pytest.fixture(autouse=True)
def _at_once(settings):
    settings.WFDASH_UNDO = 0


@pytest.fixture
def signed(run) -> HumanRequest:
    return people.ask(run, policy=SIGNED)


@pytest.fixture
def home(as_) -> Client:
    return as_("ana")


@pytest.fixture
def phone(home) -> Authenticator:
    return add_passkey(home, current="ana-password")


def asked(client: Client, request: HumanRequest, form: dict[str, str] = APPROVE) -> Any:
    """Return what the page asks a passkey to sign, for this answer."""
    page = client.post(f"/requests/{request.pk}/", form)
    assert page.status_code == 422
    found = re.search(r'<script id="to-sign" type="application/json">(.*?)</script>', page.content.decode())
    return json.loads(found[1])


def send(client: Client, request: HumanRequest, ask: Any, device: Authenticator, form: dict[str, str] = APPROVE) -> Any:
    signature = json.dumps({"token": ask["token"], "answer": json.loads(device.sign(ask))})
    return client.post(f"/requests/{request.pk}/", {**form, "_signature": signature})


def answer(client: Client, request: HumanRequest, device: Authenticator, form: dict[str, str] = APPROVE) -> Any:
    return send(client, request, asked(client, request, form), device, form)


def test_an_answer_is_taken_once_the_passkey_has_signed_it_and_its_receipt_is_in_the_chain(home, phone, signed):
    ask = asked(home, signed)
    assert not Reply.objects.exists()
    assert ask["publicKey"]["userVerification"] == "required"
    assert send(home, signed, ask, phone).status_code == 302
    entry, kept = AuditEntry.objects.get(verb="answer"), Receipt.objects.get()
    receipt = entry.facts["receipt"]
    assert kept.body == receipt
    assert kept.pk == Reply.objects.get().pk == entry.facts["reply"]
    assert flaw_of(receipt) == ""
    said = receipt["statement"]
    assert (said["answer"], said["meaning"], said["person"]) == ({"action": "approve"}, "review", "ana")
    assert (said["request"], said["counter"], said["card"]) == (signed.pk, 1, entry.facts["seen"])
    for name, other in {"answer": {"action": "reject"}, "person": "ben", "counter": 2, "card": "0" * 64}.items():
        assert flaw_of(receipt | {"statement": said | {name: other}}) == "something else was signed"


def changed_card(home, phone, signed):
    ask = asked(home, signed)
    HumanRequest.objects.filter(pk=signed.pk).update(card={**signed.card, "subject": "Pay 9,000?"})
    return send(home, signed, ask, phone)


REJECT = {"_action": "reject", "reject:reason": "too much"}
LATE = REJECT | {"reject:reason": "too late"}
SENT: dict[str, Callable[..., Any]] = {
    "changed answer": lambda home, phone, signed: send(home, signed, asked(home, signed), phone, REJECT),
    "changed reason": lambda home, phone, signed: send(home, signed, asked(home, signed, REJECT), phone, LATE),
    "forged": lambda home, phone, signed: send(home, signed, asked(home, signed), Authenticator().named_as(phone)),
    "no PIN": lambda home, phone, signed: (setattr(phone, "verifies", False), answer(home, signed, phone))[1],
    "elsewhere": lambda home, phone, signed: (
        setattr(phone, "origin", "https://a.testserver"),
        answer(home, signed, phone),
    )[1],
}


def replayed(home, phone, signed):
    other = people.ask(signed.run, policy=SIGNED)
    ask = asked(home, other)
    assert send(home, other, ask, phone).status_code == 302
    Reply.objects.all().delete()
    Answer.objects.all().delete()
    return send(home, signed, ask, phone)


def stale_counter(home, phone, signed):
    ask = asked(home, signed)
    assert answer(home, people.ask(signed.run, policy=SIGNED), phone).status_code == 302
    Reply.objects.all().delete()
    return send(home, signed, ask, phone)


def copied_key(home, phone, signed):
    phone.count = 7
    assert answer(home, people.ask(signed.run, policy=SIGNED), phone).status_code == 302
    Reply.objects.all().delete()
    return answer(home, signed, phone)


def garbage(home, phone, signed):
    for sent in ("{", "[]", '{"token": 5, "answer": {}}', "[" * 30_000, '{"token": "x", "answer": {"id": null}}'):
        assert home.post(f"/requests/{signed.pk}/", APPROVE | {"_signature": sent}).status_code == 422
    ask = asked(home, signed)
    given = json.loads(phone.sign(ask))
    for name in ("clientDataJSON", "authenticatorData", "signature"):
        for part in ("", "AA", None, [], "é" * 9, "A" * 40_000):
            broken = given | {"response": given["response"] | {name: part}}
            form = APPROVE | {"_signature": json.dumps({"token": ask["token"], "answer": broken})}
            assert home.post(f"/requests/{signed.pk}/", form).status_code == 422
    return home.post(f"/requests/{signed.pk}/", APPROVE | {"_signature": "null"})


@pytest.mark.parametrize("attack", [*SENT.values(), changed_card, replayed, stale_counter, copied_key, garbage])
def test_what_proves_something_else_is_refused_and_asked_again(attack, home, phone, signed):
    refused = attack(home, phone, signed)
    assert refused.status_code == 422
    assert "Not signed" in refused.content.decode()
    assert not Reply.objects.filter(request=signed).exists()
    assert HumanRequest.objects.get(pk=signed.pk).answered is None
    assert not AuditEntry.objects.filter(verb="answer", request=signed.pk).exists()


def test_no_one_signs_for_another_person(home, phone, signed, as_):
    ben = as_("ben")
    other = add_passkey(ben, current="ben-password")
    ask = asked(home, signed)
    assert "not by a passkey of yours" in send(home, signed, ask, other).content.decode()
    assert "asked of someone else" in send(ben, signed, ask, other).content.decode()
    assert not Reply.objects.exists()


def test_every_other_door_says_where_it_is_answered(signed, everybody):
    ana, value = people.viewer("ana"), {"action": "approve"}
    token = create_token(ana, "ci", rights=["see", "answer"], workflows=["*"]).text
    program = Client(headers={"Authorization": f"Bearer {token}"})
    path = reverse("wfdash:api:answer_request", args=[signed.pk])
    said = program.post(path, {"value": value}, content_type="application/json")
    assert said.status_code == 403
    assert "on its page" in said.json()["detail"]
    HumanRequest.objects.filter(pk=signed.pk).update(risk=0)
    assert "passkey" in answer_batch(ana, [(signed.pk, "0" * 64)], value)[0].problem
    for via in ("api", "slack", "edit", "link", "rule"):
        with pytest.raises(NotAllowed, match="on its page"):
            answer_request(ana, signed.pk, value, via=via)
    link = answer_link(signed, ana.user).rstrip("/").rsplit("/", 1)[-1]
    with pytest.raises(NotAllowed, match="on its page"):
        answer_by_link(link, value)
    shown = Client().get(reverse("wfdash:answer-link", args=[link])).content.decode()
    assert "on its page in the dashboard" in shown
    assert 'id="answer-form"' not in shown
    direct = Reply(id="made", request=signed, by=everybody["ana"], via="rule", value=value, at=people.THEN)
    with pytest.raises(NotAllowed, match="on its page"):
        finalize_answer(signed, direct)
    assert not Answer.objects.exists()


def test_without_a_passkey_the_page_leads_to_one_and_keeps_the_text(home, signed):
    form = {"_action": "reject", "reject:reason": "No contract"}
    page = home.post(f"/requests/{signed.pk}/", form)
    shown = page.content.decode()
    assert page.status_code == 422
    settings = f"/settings/second-factor/?next=/requests/{signed.pk}/"
    assert f'href="{settings}#name-new"' in shown
    assert "No contract" in shown
    assert Draft.objects.get().fields["reject:reason"] == ["No contract"]
    phone, proof = Authenticator(), {"current": "ana-password"}

    def add(device: Authenticator, address: str) -> Any:
        return home.post(address, {"act": "add-passkey", "passkey": device.make(making(home, **proof))})

    assert f'href="/requests/{signed.pk}/">I have saved them' in add(phone, settings).content.decode()
    assert answer(home, signed, phone, form).status_code == 302
    assert not Draft.objects.exists()
    for address, led in {
        settings: f"/requests/{signed.pk}/",
        "/settings/second-factor/": "/settings/second-factor/",
        "/settings/second-factor/?next=//evil.example/": "/settings/second-factor/?next=//evil.example/",
    }.items():
        proof["passkey"] = phone.sign(to_sign(home))
        assert add(Authenticator(), address).url == led


def test_each_vote_is_signed_and_what_was_undone_keeps_its_number(home, phone, run, as_, settings):
    ben, both = as_("ben"), people.ask(run, policy={**SIGNED, "need": 2})
    theirs = add_passkey(ben, current="ben-password")
    assert answer(home, both, phone).status_code == 302
    assert home.post(f"/requests/{both.pk}/undo/").status_code == 302
    assert answer(home, both, phone).status_code == 302
    assert HumanRequest.objects.get(pk=both.pk).answered is None
    assert answer(ben, both, theirs).status_code == 302
    assert HumanRequest.objects.get(pk=both.pk).answered is not None
    counts = Receipt.objects.order_by("user__username", "counter").values_list("user__username", "counter")
    assert list(counts) == [("ana", 1), ("ana", 2), ("ben", 1)]


def test_an_override_is_signed_by_who_overrides(run, as_):
    asked_of = people.ask(run, policy={**SIGNED, "by": ["ben"]}, by=["ben"])
    otto, form = as_("otto"), {**APPROVE, "_reason": "Ben is ill"}
    device = add_passkey(otto, current="otto-password")
    path = f"/requests/{asked_of.pk}/?override=1"
    page = otto.post(path, form).content.decode()
    ask = json.loads(re.search(r'<script id="to-sign" type="application/json">(.*?)</script>', page)[1])
    signature = json.dumps({"token": ask["token"], "answer": json.loads(device.sign(ask))})
    assert otto.post(path, {**form, "_signature": signature}).status_code == 302
    said = Receipt.objects.get().body["statement"]
    assert (said["person"], said["stands"], said["reason"]) == ("otto", "overrode", "Ben is ill")


def test_a_receipt_is_printed_and_its_file_is_checked_without_the_installation(home, phone, signed, tmp_path, capsys):
    assert answer(home, signed, phone).status_code == 302
    assert "/receipts/" in home.get(f"/requests/{signed.pk}/").content.decode()
    page = home.get(f"/requests/{signed.pk}/receipts/").content.decode()
    kept = Receipt.objects.get()
    assert kept.key in page
    assert "does not hold" not in page
    assert "data:image/svg+xml" in page
    assert home.get(f"/requests/{signed.pk}/receipts/?reply=other").status_code == 404
    file, keys = tmp_path / "receipt.json", tmp_path / "keys.txt"
    file.write_bytes(home.get(f"/requests/{signed.pk}/receipts/?reply={kept.pk}").content)

    def verify(*more: str) -> tuple[int, str]:
        status = main(["verify", str(file), *more])
        return status, "".join(capsys.readouterr())

    assert verify("--key", kept.key)[0] == 0
    assert "The receipt holds" in verify("--key", kept.key)[1]
    assert verify()[0] == verify("--key", "0" * 64)[0] == 2
    keys.write_text(f"{kept.key} ana\n")
    assert verify("--key", str(keys))[0] == 0
    keys.write_text(f"{kept.key} ben\n")
    assert verify("--key", str(keys)) == (1, verify("--key", str(keys))[1])
    whole = json.loads(file.read_text())
    for part, changed in {
        "shown": whole["shown"] | {"card": {"subject": "Pay 9?"}},
        "statement": whole["statement"] | {"answer": {"action": "reject"}},
        "signature": whole["signature"][:-6] + "AAAAAA",
    }.items():
        file.write_text(json.dumps(whole | {part: changed}))
        assert verify("--key", kept.key)[0] == 1
    for part, changed in {"statement": kept.body["statement"] | {"person": "ben"}, "public_key": "?"}.items():
        Receipt.objects.update(body=kept.body | {part: changed})
        assert "This receipt does not hold" in home.get(f"/requests/{signed.pk}/receipts/").content.decode()


def test_a_lost_passkey_is_an_entry_of_its_own_and_its_receipts_still_hold(home, phone, signed):
    assert answer(home, signed, phone).status_code == 302
    kept = Receipt.objects.get()
    second_factor.reset(kept.user)
    new = add_passkey(home, current="ana-password")
    acts = AuditEntry.objects.filter(verb__contains="passkey").order_by("n")
    assert [entry.verb.removeprefix("second factor: ") for entry in acts] == [
        "add passkey",
        "remove lost passkey",
        "add passkey",
    ]
    assert [entry.facts["key"] == kept.key for entry in acts] == [True, True, False]
    assert flaw_of(kept.body) == ""
    other = people.ask(signed.run, policy=SIGNED)
    assert send(home, other, asked(home, other), phone).status_code == 422
    assert answer(home, other, new).status_code == 302
    assert Receipt.objects.get(request=other.pk).counter == 2


@pytest.fixture
def twice(home, phone, signed) -> list[AuditEntry]:
    """Let ana sign two answers and remove her passkey; return its addition, the answers and the removal."""
    phone.count = 7
    assert answer(home, signed, phone).status_code == 302
    phone.count = 8
    assert answer(home, people.ask(signed.run, policy=SIGNED), phone).status_code == 302
    second_factor.reset(people.viewer("ana").user)
    return list(AuditEntry.objects.filter(verb__in=["answer", "second factor: add passkey", LOST]).order_by("n"))


LOST = "second factor: remove lost passkey"
ADDED, FIRST, SECOND, REMOVED = range(4)


def exchanged(mine: list[Any]) -> None:
    """Give each answer the receipt of the other, and what it decides."""
    one, other = mine[FIRST]["facts"], mine[SECOND]["facts"]
    one["receipt"], other["receipt"] = other["receipt"], one["receipt"]


def in_other_order(mine: list[Any], one: int, other: int) -> None:
    mine[one]["n"], mine[other]["n"] = mine[other]["n"], mine[one]["n"]


ANOTHER, NOT_THEIRS = "it was given for another decision", "its key was not the person's then"
STALE = "an earlier receipt has its number"
FORGED: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "answer altered": (lambda mine: mine[FIRST]["facts"].update(value={"action": "reject"}), ANOTHER),
    "receipt altered": (
        lambda mine: mine[FIRST]["facts"]["receipt"]["statement"].update(answer={"action": "reject"}),
        "something else was signed",
    ),
    "card of another": (lambda mine: mine[FIRST]["facts"].update(seen=mine[SECOND]["facts"]["page"]), ANOTHER),
    "another actor": (lambda mine: mine[FIRST].update(actor="ben"), ANOTHER),
    "another request": (lambda mine: mine[FIRST].update(request=mine[SECOND]["request"]), ANOTHER),
    "receipts exchanged": (exchanged, ANOTHER),
    "key of another person": (lambda mine: mine[ADDED]["facts"].update(user="ben"), NOT_THEIRS),
    "removed before": (lambda mine: in_other_order(mine, SECOND, REMOVED), NOT_THEIRS),
    "added afterwards": (lambda mine: in_other_order(mine, ADDED, FIRST), NOT_THEIRS),
    "stale counter": (lambda mine: in_other_order(mine, FIRST, SECOND), STALE),
    "repeated": (lambda mine: mine[REMOVED].update(mine[SECOND] | {"n": mine[REMOVED]["n"]}), STALE),
    "receipt of nothing": (
        lambda mine: mine[FIRST]["facts"].update(receipt=[]),
        "the receipt is incomplete or not readable",
    ),
    "key of nobody": (lambda mine: mine[ADDED]["facts"].update(user={}), "the receipt is incomplete or not readable"),
}


@pytest.mark.parametrize("attack", FORGED)
def test_who_has_every_key_of_the_server_still_makes_no_receipt_in_a_pack(twice, tmp_path: Path, attack: str):
    change, words = FORGED[attack]

    def forge(pack: Any) -> None:
        change([next(one for one in pack["entries"] if one["n"] == kept.n) for kept in twice])
        chain(pack)

    said = verify(pack_file(tmp_path, forge), "--without-key")
    assert f"its receipt does not hold: {words}" in said


def chain(pack: Any) -> None:
    """Compute every hash again, as who keeps the log can."""
    before = ""
    pack["entries"].sort(key=lambda entry: entry["n"])
    for entry in pack["entries"]:
        entry["prev"] = before
        before = entry["hash"] = hash_of(entry)
    pack["head"]["hash"] = before


def test_receipts_of_a_chain_or_pack_are_counted_also_of_who_has_another_name_now(twice, home, tmp_path: Path):
    new, user, old = add_passkey(home, current="ana-password"), people.viewer("ana").user, Receipt.objects.first().key
    user.username = "anna"
    user.save()
    asked_now = people.ask(HumanRequest.objects.first().run, policy=SIGNED)
    assert answer(home, asked_now, new).status_code == 302
    key = Receipt.objects.get(request=asked_now.pk).key
    for said in (verify(), verify(pack_file(tmp_path)), verify(pack_file(tmp_path, chain), "--without-key")):
        assert said.startswith(f"2 receipts hold by key {old} of ana\n1 receipts hold by key {key} of anna\n")
    assert "the chain holds" in verify(f"--key={old}\n{key.upper()} anna\n")
    assert f"You do not trust key {key} of anna" in verify(f"--key={old} ana\n{key} ana")
    pack, keys = pack_file(tmp_path), tmp_path / "keys.txt"
    keys.write_text(f"{old} ana\n")
    assert f"You do not trust key {key} of anna" in verify(pack, f"--key={old} ana")
    assert main(["verify", str(pack), "--without-key", "--key", str(keys)]) == 1
    keys.write_text(f"{old} ana\n{key} anna\n")
    assert main(["verify", str(pack), "--without-key", "--key", str(keys)]) == 0


def test_a_part_of_the_chain_says_whose_key_it_cannot_say(twice, tmp_path: Path):
    def answers_alone(pack: Any) -> None:
        pack["entries"] = [entry for entry in pack["entries"] if entry["verb"] == "answer"]
        pack.update(whole=False, filter="verb:answer")

    said = verify(pack_file(tmp_path, answers_alone), "--without-key")
    assert " of ana, and no entry here says that it is theirs\n" in said


def test_a_key_that_counts_less_than_before_was_copied(home, phone, signed):
    phone.count = 7
    assert answer(home, signed, phone).status_code == 302
    Receipt.objects.update(signs=0)
    assert answer(home, people.ask(signed.run, policy=SIGNED), phone).status_code == 302
    assert STALE in verify()


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def threads(request, django_db_blocker) -> Iterator[ThreadPoolExecutor]:
    with django_db_blocker.unblock(), threads_of(request.getfixturevalue(request.param), 2) as threads:
        yield threads


@pytest.fixture
def desk(threads) -> Callable[..., list[Any]]:
    """Ask so many requests, and return them with what sends an answer that ana, or ben, has signed to each."""

    def signer(name: str) -> tuple[Client, Authenticator]:
        client, user = Client(), people.make_people()[name]
        second_factor.reset(user)
        client.force_login(user)
        return client, add_passkey(client, current=f"{name}-password")

    def signing(request: HumanRequest, client: Client, device: Authenticator) -> Callable[[], int]:
        ask = asked(client, request)
        signature = json.dumps({"token": ask["token"], "answer": json.loads(device.sign(ask))})
        return lambda: client.post(f"/requests/{request.pk}/", APPROVE | {"_signature": signature}).status_code

    def make(count: int = 1, **policy: Any) -> list[Any]:
        made = [people.ask(run, policy=SIGNED | policy) for _ in range(count)]
        return [(one.pk, signing(one, *ana), signing(one, *ben)) for one in made]

    ana, ben, run = threads.submit(lambda: (signer("ana"), signer("ben"), people.make_run())).result()
    return lambda *given, **policy: threads.submit(make, *given, **policy).result()


def race(threads: ThreadPoolExecutor, *calls: Callable[[], Any]) -> list[Any]:
    gate = Barrier(2)
    return [one.result() for one in [threads.submit(lambda call=call: (gate.wait(), call())[1]) for call in calls]]


def stored(threads: ThreadPoolExecutor, request: str) -> list[int]:
    """Return how many answers, replies that count, receipts and entries a request has, in a chain that holds."""
    rows = Answer.objects, Reply.objects.filter(undone=None), Receipt.objects, AuditEntry.objects.filter(verb="answer")
    count = threads.submit(lambda: (check_chain()[1], [row.filter(request=request).count() for row in rows])).result()
    assert count[0] == []
    return count[1]


def test_of_signatures_that_race_for_one_request_or_by_one_number_one_counts(threads, desk):
    for _ in range(5):
        ((one, ana, ben),) = desk()
        assert sorted(race(threads, ana, ben)) == [302, 409]
        assert stored(threads, one) == [1] * 4
        ((one, ana, _),) = desk()
        assert sorted(race(threads, ana, ana)) == [302, 409]
        assert stored(threads, one) == [1] * 4
        (one, ana, _), (other, also, _) = desk(2)
        assert sorted(race(threads, ana, also)) == [302, 422]
        assert sorted([stored(threads, one), stored(threads, other)]) == [[0] * 4, [1] * 4]


def test_of_a_deciding_signature_and_an_undo_at_once_one_is_too_late(threads, desk):
    def undo(request: str) -> bool:
        with suppress(WrongState):
            undo_answer(people.viewer("ana"), request)
            return True
        return False

    for _ in range(5):
        ((one, ana, ben),) = desk(need=2)
        assert threads.submit(ana).result() == 302
        status, undone = race(threads, ben, lambda one=one: undo(one))
        assert status == 302
        assert stored(threads, one) == ([0, 1, 2, 2] if undone else [1, 2, 2, 2])


def test_a_passkey_is_removed_before_its_signature_counts_or_after_the_entry(threads, desk):
    ((one, ana, _),), signing, removed = desk(), Event(), Event()

    def pause(execute: Any, sql: str, *given: Any) -> Any:
        if sql.startswith("INSERT") and "checkpoints_receipt" in sql:
            signing.set()
            removed.wait(0.5)
        return execute(sql, *given)

    def slowly() -> int:
        with connection.execute_wrapper(pause):
            return ana()

    answered = threads.submit(slowly)
    threads.submit(lambda: (signing.wait(10), second_factor.reset(people.viewer("ana").user), removed.set())).result()
    assert answered.result() == 302
    assert stored(threads, one) == [1] * 4

"""The pages of the time machine over a real native run: edits, comparisons, what was then."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from pydantic import BaseModel, Field

from checkpoints.database.runs import read_row
from checkpoints.models import AuditEntry, Checkpoint, Event, Run
from tests.domain.test_json_patch import patched
from tests.driving import drive, pending, put
from tests.pages.markup import flat
from tests.people import make_people, save, viewer
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.timemachine import shown_json, shown_of
from wfdash.workflow import Context, Workflow

pytestmark = pytest.mark.django_db(transaction=True)


class Claim(BaseModel):
    amount: int
    note: str | None = None


class Login(BaseModel):
    user: str
    token: str = Field(json_schema_extra={"writeOnly": True})


class Notes(BaseModel):
    seen: int = 0
    words: list[str] = []


def expense() -> Workflow:
    wf = Workflow("expense", state=Notes)

    @wf.step(start=True)
    async def read(claim: Claim, ctx: Context) -> Claim:
        if claim.amount < 0:
            raise ValueError("an amount below zero")
        ctx.state.seen = claim.amount
        return claim

    @wf.step(after=read)
    async def review(claim: Claim, ctx: Context) -> int:
        return claim.amount + int(await ctx.ask(f"Pay {claim.amount}?", answer=int))

    @wf.step(after=review)
    async def pay(amount: int, ctx: Context) -> str:
        await ctx.call(print, "paid", once=True)
        return f"paid {amount}, seen {ctx.state.seen}"

    return wf


@pytest.fixture
def otto(transactional_db, monkeypatch) -> Client:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", cache(lambda: found))
    put(found, expense())
    client = Client()
    client.force_login(make_people()["otto"])
    return client


def started(amount: int = 5) -> Run:
    run = start_run(viewer("otto"), "expense", {"amount": amount})
    drive(run)
    return run


def head(run: Run) -> Checkpoint:
    return Checkpoint.objects.filter(run=run).order_by("-n").first()


def at(name: str, run: Run, *more: object) -> str:
    return reverse(f"wfdash:{name}", args=[run.pk, *more])


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {name: unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def text_of(response) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def fields_of(response) -> dict[str, str]:
    """Return what a browser would send of a form it was just given."""
    page = response.content.decode()
    form = page[page.index('class="stack edit-form"') :]
    found = {}
    for tag in re.findall(r"<input[^>]*>", form):
        named = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        kind = named.get("type", "text")
        if "name" in named and (kind not in {"checkbox", "radio"} or " checked" in tag):
            found[unescape(named["name"])] = unescape(named.get("value", ""))
    for name, value in re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>([^<]*)', form):
        found[unescape(name)] = unescape(value).removeprefix("\n")
    return found


def test_a_failed_run_is_edited_previewed_and_forked(otto):
    run = started(-5)
    address = at("edit", run, head(run).pk)
    form = otto.get(address)
    assert "Run input" in text_of(form)
    given = fields_of(form)
    assert given["m1:amount"] == "-5"
    wrong = otto.post(address, given | {"m1:amount": "many", "m1:note": "typed", "_what": "fork"})
    assert wrong.status_code == 422
    assert fields_of(wrong)["m1:note"] == "typed"
    shown = otto.post(address, given | {"m1:amount": "7", "_what": "fork", "_reason": "a sign"})
    assert shown.status_code == 200
    assert "read restarts with edited input" in text_of(shown).lower()
    assert "amount -5 7" in text_of(shown)
    assert re.search(r"Requests that open( again)? 0 May ask again: Review", text_of(shown)), "and not: None"
    assert Run.objects.count() == 1
    confirm = hidden(shown.content.decode()) | {"_phase": "confirm"}
    for _ in range(2):
        done = otto.post(address, confirm)
        assert done.status_code == 302
    fork = Run.objects.exclude(pk=run.pk).get()
    assert done["Location"] == at("run", fork)
    assert (fork.input, fork.altered) == ({"amount": 7, "note": None}, "edited")
    assert drive(fork) == "waiting"


def test_a_secret_is_never_shown_and_stays_unless_it_is_changed(otto):
    wf = Workflow("vault")

    @wf.step(start=True)
    async def open_it(login: Login) -> str:
        if not login.user:
            raise ValueError("nobody")
        return f"{login.user}:{login.token}"

    put(catalog.load(), wf)
    run = start_run(viewer("otto"), "vault", {"user": "", "token": "hush-hush"})
    assert drive(run) == "failed"
    address = at("edit", run, head(run).pk)
    form = otto.get(address)
    given = fields_of(form)
    assert json.loads(given["m1:_json"]) == {"user": "", "token": "•••"}
    shown = otto.post(address, given | {"m1:_json": '{"user": "kim", "token": "•••"}', "_what": "fork"})
    seen = [form, shown, otto.get(at("checkpoint", run, head(run).pk)), otto.get(at("replay", run, 4))]
    done = otto.post(address, hidden(shown.content.decode()) | {"_phase": "confirm"}, follow=True)
    assert not any("hush" in page.content.decode() for page in [*seen, done])
    fork = Run.objects.exclude(pk=run.pk).get()
    assert drive(fork) == "completed"
    fork.refresh_from_db()
    assert fork.output == "kim:hush-hush"
    told = [event.data for event in Event.objects.filter(run=fork, kind="run.edited")]
    assert "hush" not in json.dumps([*told, *(entry.facts for entry in AuditEntry.objects.all())])


def test_editing_on_keeps_what_was_typed(otto):
    run = started(-5)
    address = at("edit", run, head(run).pk)
    given = fields_of(otto.get(address)) | {"m1:amount": "8", "_what": "restore", "_reason": "why not"}
    shown = otto.post(address, given)
    back = otto.post(address, hidden(shown.content.decode()) | {"_phase": "edit"})
    assert (fields_of(back)["m1:amount"], fields_of(back)["_reason"]) == ("8", "why not")


def test_json_that_is_none_is_told_by_its_line_and_stays_as_it_was_typed(otto):
    run = started()
    address = at("edit", run, head(run).pk)
    wrong = otto.post(address, fields_of(otto.get(address)) | {"state:_json": '{\n"seen": many}', "_what": "fork"})
    assert wrong.status_code == 422
    assert "line 2" in text_of(wrong)
    assert fields_of(wrong)["state:_json"] == '{\n"seen": many}'


def test_a_form_that_was_left_alone_changes_nothing(otto):
    run = started()
    address = at("edit", run, head(run).pk)
    same = otto.post(address, fields_of(otto.get(address)) | {"_what": "fork"})
    assert same.status_code == 422
    assert "No changes" in text_of(same)


def test_state_and_an_answer_are_edited_in_the_same_run(otto):
    run = started()
    address = at("edit", run, head(run).pk)
    given = fields_of(otto.get(address)) | {"state:seen": "99", "_answer0": "1", "q0:value": "1", "_what": "restore"}
    shown = otto.post(address, given)
    assert "answered by your edits" in text_of(shown)
    assert otto.post(address, hidden(shown.content.decode()) | {"_phase": "confirm"}).status_code == 302
    assert drive(run) == "completed"
    run.refresh_from_db()
    assert (run.output, run.altered) == ("paid 6, seen 99", "edited")


def test_a_list_of_the_form_grows_without_submitting_anything(otto):
    run = started()
    address = at("edit", run, head(run).pk)
    page = otto.get(address).content.decode()
    press = re.search(r'name="(_\w+)" value="(state:words[^"]*)"', page) or re.search(r'name="(_add[^"]*)"[^>]*', page)
    more = otto.post(
        address, fields_of(otto.get(address)) | {press.group(1): unescape(press.group(2)), "_what": "fork"}
    )
    assert more.status_code == 200
    assert "Preview fork" in text_of(more)


def test_what_moved_on_since_the_preview_is_shown_again_and_not_done(otto):
    run = started()
    for address, extra in (
        (at("restore", run, head(run).pk), {}),
        (
            at("edit", run, head(run).pk),
            {"_phase": "confirm", "_edits": json.dumps({"state": {"seen": 1, "words": []}})},
        ),
    ):
        stale = {"_seen": "0" * 32, "_what": "restore", **extra}
        answer = otto.post(address, stale)
        assert answer.status_code == 409
        assert "changed since this preview" in text_of(answer)
        assert not Event.objects.filter(kind="run.restored").exists()
        fresh = otto.post(address, hidden(answer.content.decode()) | ({"_phase": "confirm"} if extra else {}))
        assert fresh.status_code == 302
        Event.objects.filter(kind="run.restored").delete()


def test_two_checkpoints_are_compared_in_words_and_as_a_patch(otto):
    run = started()
    answer_request(viewer("ana"), next(iter(pending(run).values())).pk, 1)
    drive(run)
    other = started(9)
    first = Checkpoint.objects.filter(run=run).order_by("n")[0]
    last = f"https://wfdash.example/runs/{other.pk}/checkpoints/{head(other).pk}/"
    answer = otto.get(at("compare", run), {"a": "1", "b": last})
    page = text_of(answer)
    assert "not started waiting for people" in page
    assert f"only in checkpoint {head(other).n}" in page
    assert f"run {other.pk[-8:]}" in page
    assert "Run input" in page
    shown = json.loads(re.search(r"data-patch><code>([^<]*)", answer.content.decode()).group(1).replace("&quot;", '"'))
    assert patched({"seen": 0, "words": []}, shown) == {"seen": 9, "words": []}
    raw = otto.get(at("compare", run), {"a": "1", "b": last, "raw": "shown"}).json()
    views = [shown_json(shown_of(read_row(one))) for one in (first, head(other))]
    assert patched(views[0], raw) == views[1]
    assert "The state is the same in both" in text_of(otto.get(at("compare", run), {"a": first.pk, "b": first.pk}))
    missing = otto.get(at("compare", run), {"a": "1", "b": "999"})
    assert missing.status_code == 404
    assert "Checkpoint “999” not found" in text_of(missing)
    assert otto.get(at("compare", run)).status_code == 200


def test_a_checkpoint_of_another_workflow_is_not_compared(otto):
    run = started()
    other = Run.objects.create(id="o" * 8, family="o", workflow="other", created=run.created, updated=run.created)
    answer = otto.get(at("compare", run), {"a": "1", "b": save(other).pk})
    assert answer.status_code == 422
    assert "belongs to workflow other" in text_of(answer)


def test_every_event_can_be_looked_back_at(otto):
    run = started()
    answer_request(viewer("ana"), next(iter(pending(run).values())).pk, 1)
    drive(run)
    restore_run(viewer("otto"), run.pk, Checkpoint.objects.filter(run=run).order_by("n")[1].pk)
    last = Event.objects.filter(run=run).latest("seq").seq
    before = Event.objects.count()
    pages = {seq: text_of(otto.get(at("replay", run, seq))) for seq in range(1, last + 1)}
    assert Event.objects.count() == before
    assert "No checkpoint yet" in pages[1]
    opened = Event.objects.filter(run=run, kind="request.opened").earliest("seq").seq
    answered = Event.objects.get(run=run, kind="request.answered").seq
    assert "Pay 5?" in pages[opened].split("Open requests")[1]
    assert "answered later" in pages[answered - 1]
    assert "No open requests" in pages[answered]
    assert "on a previous branch" in pages[answered + 3]
    for seq in (0, last + 1, 10**30):
        assert otto.get(f"/runs/{run.pk}/at/{seq}/").status_code == 404
    assert otto.get(at("replay", run, 1), {"seq": "3"})["Location"] == at("replay", run, 3)


def test_a_label_is_given_in_place(otto):
    run = started()
    done = otto.post(at("label", run, head(run).pk), {"label": "before the audit"}, follow=True)
    assert "before the audit" in text_of(otto.get(at("run", run)))
    assert done.status_code == 200
    assert "give 1 to 200 characters" in text_of(
        otto.post(at("label", run, head(run).pk), {"label": "x" * 300}, follow=True)
    )


def test_only_operators_edit_and_only_those_who_inspect_compare(otto):
    run = started()
    people = make_people()
    for name, expected in (("ana", 403), ("vera", 403), ("sam", 404)):
        client = Client()
        client.force_login(people[name])
        for page in ("edit", "restore", "fork"):
            for answer in (client.get(at(page, run, head(run).pk)), client.post(at(page, run, head(run).pk))):
                assert answer.status_code == expected, (name, page)
        looks = {"ana": 403, "vera": 200, "sam": 404}[name]
        assert client.get(at("compare", run), {"a": "1", "b": "2"}).status_code == looks
        seen = client.get(at("replay", run, 3))
        assert seen.status_code == (404 if name == "sam" else 200)
        assert ("Your role cannot view values" in text_of(seen)) is (name == "ana")


def test_after_a_restore_the_run_says_where_it_stands_and_who_is_asked_now(otto):
    run = started()
    (first,) = pending(run).values()
    answer_request(viewer("otto"), first.pk, 1)
    assert drive(run) == "completed"
    waited = Checkpoint.objects.filter(run=run, waiting__gt=0).order_by("n").first()
    address = at("restore", run, waited.pk)
    otto.post(address, hidden(otto.get(address).content.decode()))
    drive(run)
    page = text_of(otto.get(at("run", run)))
    assert f"Restored checkpoint {waited.n} (new checkpoint" in page
    waiting, past = page.split("Open requests", 1)[1].split("Closed", 1)
    assert waiting.count("Pay 5?") == 1
    assert past.count("Pay 5?") >= 1


@pytest.mark.parametrize("amount", [5, -5])
def test_edits_are_offered_only_where_the_engine_takes_them(otto, monkeypatch, amount: int):
    class Fixed:
        """An engine that runs workflows and edits nothing."""

        name = "fixed"

    run = started(amount)
    pages = [f"/runs/{run.pk}/", f"/runs/{run.pk}/checkpoints/{head(run).pk}/"]
    edit = f"/checkpoints/{head(run).pk}/edit/"
    assert sum(edit in otto.get(page).content.decode() for page in pages) == 2
    entry = catalog.load().entries["expense"]
    monkeypatch.setitem(catalog.load().entries, "expense", replace(entry, engine=Fixed()))
    answers = [otto.get(page) for page in pages]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert not any(edit in answer.content.decode() for answer in answers)


def test_checkpoints_to_compare_are_picked_from_a_list_or_typed(otto):
    run = started()
    page = flat(otto.get(at("compare", run)).content.decode())
    assert f'name="b" value="{head(run).pk}" aria-label="To checkpoint {head(run).n}" checked>' in page
    for typed, n in (("", 1), (head(run).n, head(run).n)):
        assert otto.get(f"{at('compare', run)}?a=1&b=1&a={typed}&b=").context["found"].before.n == n
    assert otto.get(f"{at('compare', run)}?older=1").status_code == 200

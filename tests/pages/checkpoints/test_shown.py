"""Checkpoints are drawn as their engine shows them; of one that does not, nothing of the body is shown."""

from __future__ import annotations

import pytest
from django.urls import reverse

from checkpoints.conformance.worlds import question
from tests import people
from tests.pages.markup import flat
from wfdash.contract import Message, Shown, ToolUse
from wfdash.engines import catalog
from wfdash.engines.native import NativeEngine
from wfdash.values.schemas.secrets import HIDDEN

RAW = {"channel_values": {"branch:to:model": "raw"}}
ADDRESSES = ("wfdash:run", "wfdash:run-state")


class TalkingEngine(NativeEngine):
    """Shows a conversation that its bodies hold as it stands."""

    name = "talking"

    def show(self, checkpoint):
        call = ToolUse(id="c", name="refund", arguments={"order": 7, "pin": "hush-hush"})
        spoken = [Message(role="user", text=f"Message {n}") for n in range(checkpoint.body["said"])]
        answer = Message(role="assistant", text="**Wait** <script>", calls=(call,), input_tokens=1200, output_tokens=8)
        result = Message(role="tool", call="c", text='{"pin": "hush-hush", "done": true}')
        return Shown(state={"said": len(spoken)}, transcript=(*spoken, answer, result), inputs={"review:1": {"n": 1}})


@pytest.fixture
def talking(monkeypatch):
    catalog.load().engines += (TalkingEngine(),)
    monkeypatch.setattr("wfdash.engines.catalog.Entry.secrets", frozenset({"pin"}))


@pytest.mark.parametrize(
    ("engine", "why"), [("gone", "which is not loaded here"), ("paper", "does not say what is in")]
)
def test_of_an_engine_that_shows_nothing_the_pages_say_so(engine, why, run, as_):
    people.happen(run, *people.step("review", "started"))
    one = people.save(run, body=RAW, engine=engine)
    other = people.save(run, one, body=RAW, engine=engine)
    client, at = as_("otto"), reverse("wfdash:checkpoint", args=[run.pk, one.pk])
    pages = [client.get(at), client.get(f"/runs/{run.pk}/compare/?a=1&b=2"), client.get(f"/runs/{run.pk}/state/")]
    for page in pages:
        assert why in flat(page.content.decode())
        assert "branch:to" not in page.content.decode()
    assert why in flat(client.get(f"/runs/{run.pk}/?step=review").content.decode())
    assert "branch:to" not in client.get(reverse("wfdash:edit", args=[run.pk, other.pk])).content.decode()
    assert client.get(f"/runs/{run.pk}/compare/?a=1&b=2&raw=shown").json() == []


def test_a_body_that_its_engine_cannot_read_is_no_error(run, as_):
    chosen = people.save(run, body={"state": 1})
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, chosen.pk]))
    assert (page.status_code, page.context["chosen"].problem) == (200, "")
    assert "cannot show it: it holds no state" in flat(page.content.decode())


def test_a_conversation_is_drawn_with_its_calls_and_secrets_hidden(run, talking, as_):
    people.happen(run, *people.step("review", "started"))
    chosen = people.save(run, body={"said": 3}, engine="talking")
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, chosen.pk]))
    text = page.content.decode()
    assert [turn.who for turn in page.context["talk"].turns] == ["User"] * 3 + ["Assistant"]
    assert "<strong>Wait</strong>" in text
    assert "&lt;script&gt;" in text
    assert "1,200 in, 8 out tokens" in text
    assert "hush-hush" not in text
    assert HIDDEN in text
    assert [(one.step, one.number, one.value) for one in page.context["at_work"]] == [("review", 1, {"n": 1})]


def test_what_is_called_secret_later_is_hidden_on_open_pages_once_workflows_are_read_again(
    run, talking, monkeypatch, as_
):
    people.save(run, body={"said": 1}, engine="talking")
    client = as_("otto")
    for secrets, reloads in ((frozenset(), 1), (frozenset({"pin"}), 2)):
        monkeypatch.setattr("wfdash.engines.catalog.Entry.secrets", secrets)
        monkeypatch.setattr(catalog, "latest", catalog.Reload(number=reloads))
        assert ("hush-hush" in client.get(f"/runs/{run.pk}/").content.decode()) == (not secrets)


def test_steps_that_wait_are_in_progress_also_without_an_input_of_their_own(run, talking, as_):
    people.happen(run, *people.step("try_out", "started", "finished"), *people.step("review", "started"))
    people.happen(run, *people.step("choose", "started", "waiting"))
    chosen = people.save(run, body={"said": 0}, engine="talking", requests=(question(step="choose"),))
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, chosen.pk]))
    assert [(one.step, one.known) for one in page.context["at_work"]] == [("review", True), ("choose", False)]
    assert '<p>Choose<span class="small muted">No. 1</span></p>' in flat(page.content.decode())


def test_of_a_long_conversation_the_end_is_shown_and_the_rest_in_pages(run, talking, as_):
    chosen, client = people.save(run, body={"said": 1000}, engine="talking"), as_("otto")
    at = reverse("wfdash:checkpoint", args=[run.pk, chosen.pk])
    end = client.get(at)
    assert len(end.content) < 80_000
    assert "982 earlier messages" in flat(end.content.decode())
    before = client.get(f"{at}?until=982")
    assert [turn.number for turn in before.context["talk"].turns] == list(range(963, 983))
    assert "20 later messages" in flat(before.content.decode())
    for odd in ("0", "-1", "x", "99999", "9" * 30):
        assert client.get(f"{at}?until={odd}").status_code == 200


def test_what_was_said_since_another_checkpoint_is_the_difference(run, talking, as_):
    one, other = (people.save(run, body={"said": said}, engine="talking") for said in (1, 3))
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, other.pk]) + f"?against={one.pk}")
    changes = page.context["talk_changes"]
    assert (changes.shared, changes.removed.total, changes.added.total) == (1, 2, 4)
    assert "2 messages removed, 4 messages added after 1 in both" in flat(page.content.decode())


def test_a_role_that_may_not_inspect_values_sees_none_of_it(run, talking, as_):
    chosen = people.save(run, body={"said": 3}, engine="talking")
    for name in ADDRESSES:
        page = as_("ana").get(reverse(name, args=[run.pk]))
        assert "Message 1" not in page.content.decode()
    assert as_("ana").get(reverse("wfdash:checkpoint", args=[run.pk, chosen.pk])).status_code == 403


def test_a_conversation_is_searched_with_the_hits_marked_and_downloaded_without_its_secrets(run, talking, as_):
    people.save(run, body={"said": 3}, engine="talking")
    client, at = as_("otto"), f"/runs/{run.pk}/state/?what=transcript"
    text = flat(client.get(f"{at}&q=ORDER").content.decode())
    for part in ("1 message with “ORDER”", "<mark>order</mark>&quot;: 7", 'href="?what=transcript&amp;until=6#said-4"'):
        assert part in text
    assert "No messages with “hush-hush”" in flat(client.get(f"{at}&q=hush-hush").content.decode())
    # The result is shown with its call.
    assert [turn.number for turn in client.get(f"{at}&q=done").context["turns"]] == [4]
    sent = client.get(f"{at}&as=markdown")
    assert (sent.streaming, sent["Content-Type"]) == (True, "text/markdown; charset=utf-8")
    said = b"".join(sent.streaming_content).decode()
    assert said.startswith("## User\n\n> Message 0\n\n## User")
    assert "hush-hush" not in said
    assert client.get(f"/api/v1/runs/{run.pk}/values/transcript.md").json()["value"] == said
    assert "Message 0" not in as_("ana").get(f"{at}&as=markdown").content.decode()


def test_two_runs_stand_side_by_side_and_each_is_found_through_its_viewer(run, talking, as_):
    other = people.make_run()
    for one, said in ((run, 1), (other, 2)):
        people.save(one, body={"said": said}, engine="talking")
    client, at = as_("otto"), f"/runs/{run.pk}/beside/"
    assert [row.id for row in client.get(at).context["rows"]] == [other.pk]
    text = flat(client.get(f"{at}?with={other.pk}").content.decode())
    assert all(part in text for part in ("The first message is the same.", 'id="from-1"', 'id="to-2"'))
    assert (client.get(f"{at}?q=nonsense:1").status_code, client.get(f"{at}?with=gone").status_code) == (422, 404)
    assert "Message 1" not in as_("ana").get(f"{at}?with={other.pk}").content.decode()
    assert as_("sam").get(f"{at}?with={other.pk}").status_code == 404
    type(run).objects.update(workflow="Pay, then ship")
    assert [row.id for row in client.get(at).context["rows"]] == [other.pk]

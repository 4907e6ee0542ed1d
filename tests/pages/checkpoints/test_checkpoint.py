from __future__ import annotations

from django.urls import reverse

from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.records import Request
from tests import people


def test_a_checkpoint_shows_its_state_and_what_changed(run, history, as_):
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, history[1].pk])).content.decode()
    assert "hush" in page
    assert "Changed since checkpoint 1" in page
    assert "state.secret" in page


def test_any_two_checkpoints_can_be_compared(run, history, as_):
    address = reverse("wfdash:checkpoint", args=[run.pk, history[0].pk]) + f"?against={history[2].pk}"
    assert "Changed since checkpoint 3" in as_("otto").get(address).content.decode()
    assert as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, history[0].pk]) + "?against=x").status_code == 404


def test_a_damaged_checkpoint_says_so_and_offers_its_parent(run, history, as_):
    Checkpoint.objects.filter(pk=history[1].pk).update(body="broken " + "x" * 20)
    page = as_("otto").get(reverse("wfdash:checkpoint", args=[run.pk, history[1].pk])).content.decode()
    assert "cannot be read" in page
    assert reverse("wfdash:checkpoint", args=[run.pk, history[0].pk]) in page
    preview = as_("otto").get(reverse("wfdash:restore", args=[run.pk, history[1].pk])).content.decode()
    assert "This checkpoint cannot be read" in preview
    assert as_("otto").post(reverse("wfdash:restore", args=[run.pk, history[1].pk])).status_code == 409


def test_the_preview_shows_effects_and_changes_nothing(run, history, as_):
    before = people.row_of(run.pk)
    for verb in ("restore", "fork"):
        page = as_("otto").get(reverse(f"wfdash:{verb}", args=[run.pk, history[0].pk])).content.decode()
        assert "bank.transfer" in page
        assert "Nothing has been changed yet" in page
    assert people.row_of(run.pk) == before
    assert Checkpoint.objects.count() == 3


def test_confirming_restores_the_run_and_asks_again(run, history, everybody, as_):
    pending = Request(key="review:0", step="review", card={"subject": "Pay 900?"})
    chosen = people.save(run, history[2], requests=(pending,))
    people.answered(people.ask(run, key="review:0", closed=people.THEN, closed_as="taken"), everybody["ben"])
    page = as_("otto").post(reverse("wfdash:restore", args=[run.pk, chosen.pk]), follow=True).content.decode()
    assert "Restored" in page
    reopened = HumanRequest.objects.get(closed__isnull=True)
    assert reopened.suggestion["by"] == "ben"
    assert f"/requests/{reopened.pk}/" in page


def test_confirming_forks_a_new_run(run, history, as_):
    answer = as_("otto").post(reverse("wfdash:fork", args=[run.pk, history[1].pk]), follow=True)
    assert "The original run is unchanged" in answer.content.decode()
    assert Run.objects.exclude(pk=run.pk).get().forked_from == history[1].pk
    assert f"/runs/{run.pk}/" in answer.content.decode()

"""Requests are looked up by SQL that is kept per viewer: it finds what the viewer's own filter finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import AnonymousUser

from checkpoints.models import Grant, HumanRequest
from tests import people
from wfdash.access.viewer import TokenScope, Viewer, viewer_for
from wfdash.actions.common import no_marks, requests_for
from wfdash.actions.requests.answer import marks_of
from wfdash.queries.requests.request import requests_of

pytestmark = pytest.mark.django_db
OTHER = "patch_review"


def viewers() -> Iterator[Viewer]:
    """Yield everyone, those with a role in one workflow, tokens with less than their owner has, and strangers."""
    who = people.make_people()
    for name in people.ROLES:
        yield people.viewer(name)
        for workflows in ({"*"}, {OTHER}):
            for rights in ({"see"}, {"see", "answer"}):
                scope = TokenScope(rights=frozenset(rights), workflows=frozenset(workflows))
                yield people.viewer(name).with_token("token", scope)
    for role in ("viewer", "reviewer", "author", "operator", "admin"):
        Grant.objects.filter(user=who["sam"]).delete()
        Grant.objects.create(user=who["sam"], role=role, workflow=OTHER)
        yield people.viewer("sam")
    who["sam"].is_active = False
    yield viewer_for(who["sam"])
    yield viewer_for(AnonymousUser())


def test_every_viewer_finds_the_requests_that_their_filter_finds() -> None:
    who = people.make_people()
    runs = [people.make_run(workflow=name, created_by=who[by]) for name in (people.WORKFLOW, OTHER) for by in who]
    requests = [people.ask(run) for run in runs]
    found_by_all = set()
    for viewer in viewers():
        sees = viewer.scope("see") | viewer.started()
        seen = set(HumanRequest.objects.filter(sees).values_list("pk", flat=True))
        found = set(HumanRequest.objects.filter(sees | viewer.scope("answer")).values_list("pk", flat=True))
        for statement, expected in (
            (requests_of(viewer, None), seen),
            (requests_for(viewer, no_marks), found),
            *([(requests_for(viewer, marks_of), found)] if viewer.user.pk else []),
        ):
            assert {one.pk for one in requests if statement.first(id=one.pk) is not None} == expected
        found_by_all.add(frozenset(seen))
    assert len(found_by_all) > 5


def test_a_viewer_who_loses_a_right_no_longer_finds_what_it_showed() -> None:
    people.make_people()
    request = people.ask(people.make_run())
    assert requests_of(people.viewer("vera"), None).first(id=request.pk) is not None
    Grant.objects.filter(user__username="vera").delete()
    assert requests_of(people.viewer("vera"), None).first(id=request.pk) is None

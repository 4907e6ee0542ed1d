"""Many runs through the API: rehearsed, begun once per key, asked after."""

from __future__ import annotations

import pytest

from checkpoints.models import Bulk, Run
from tests import people


@pytest.fixture
def failed(everybody) -> list[str]:
    return [people.make_run(phase="failed").pk for _ in range(3)]


def post(client, given, **headers):
    return client.post("/api/v1/runs/bulk", given, content_type="application/json", headers=headers)


def test_a_dry_run_counts_and_changes_nothing(failed, as_):
    people.make_run(phase="completed")
    answer = post(as_("otto"), {"verb": "retry", "all": True, "dry_run": True})
    assert answer.status_code == 200
    assert answer.json() == {
        "verb": "retry",
        "acts": 3,
        "stays": [{"why": "Completed", "count": 1}],
        "runs": answer.json()["runs"],
    }
    assert set(answer.json()["runs"]) == set(failed)
    assert not Bulk.objects.exists()


def test_it_is_begun_once_per_key_though_the_filter_finds_nothing_any_more(failed, as_):
    client, given = as_("otto"), {"verb": "retry", "q": "status:failed", "all": True}
    first, again = (post(client, given, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert (first.json()["acted"], first.json()["finished"]) == (3, True)
    assert client.get(f"/api/v1/bulk/{first.json()['id']}").json() == first.json()
    assert post(client, {**given, "verb": "cancel"}, **{"Idempotency-Key": "k"}).status_code == 409
    assert Run.objects.filter(phase="ready").count() == 3


@pytest.mark.parametrize("given", [{"verb": "explode"}, {"verb": "retry"}, {"verb": "retry", "q": "x:y", "all": True}])
def test_what_cannot_be_told_is_422(failed, as_, given):
    assert post(as_("otto"), given).status_code == 422


def test_the_list_answers_422_with_each_part_that_is_none(failed, as_):
    answer = as_("otto").get("/api/v1/runs?q=colour:red status:nope")
    assert answer.status_code == 422
    assert [error["loc"][-1] for error in answer.json()["errors"]] == ["colour:red", "status:nope"]

"""The state inspector."""

from __future__ import annotations

import json

import pytest

from checkpoints.models import Run
from tests import people


@pytest.fixture
def large(run):
    """A state of a thousand orders."""
    orders = [{"number": n, "customer": {"name": f"Novak {n}", "a/b": [n] * 4}} for n in range(1000)]
    people.save(run, body={"state": {"orders": orders, "note": "x" * 9000, "total": 1}, "position": {"live": {}}})
    return f"/runs/{run.pk}/state/"


def test_large_parts_are_left_to_be_opened(large, as_):
    page = as_("otto").get(large).content.decode()
    assert "Novak" not in page
    assert 'data-lazy="?path=%2Forders"' in page
    assert "9,000 characters" in page
    assert len(page) < 40_000


def test_a_run_that_waits_without_a_state_opens_on_the_inputs_of_its_steps(run, question, as_):
    people.save(run, body={"state": {}, "position": {"live": {}}})
    client = as_("otto")
    opened = {what: client.get(f"/runs/{run.pk}/state/{what}").context["found"].part for what in ("", "?what=state")}
    assert opened == {"": "inputs", "?what=state": "state"}
    Run.objects.filter(pk=run.pk).update(phase="failed")
    assert client.get(f"/runs/{run.pk}/state/").context["found"].part == "state"


def test_a_part_has_an_address_and_its_rows_can_be_fetched_alone(large, as_):
    client = as_("otto")
    page = client.get(f"{large}?path=/orders/7/customer").content.decode()
    assert ("Novak 7" in page, "Novak 8" in page) == (True, False)
    rows = client.get(f"{large}?path=/orders&fragment=node").content.decode()
    assert rows.startswith('<ul class="v-rows">')
    assert all(part in rows for part in ("Novak 99", "900 more", "from=100"))
    more = client.get(f"{large}?path=/orders&from=990&fragment=node").content.decode()
    assert ("Novak 999" in more, "Novak 989" in more) == (True, False)


@pytest.mark.parametrize("path", ["/nothing", "/orders/1000", "/orders/x", "/orders/-1", "/total/deeper"])
def test_what_is_not_there_is_not_found(path, large, as_):
    assert as_("otto").get(f"{large}?path={path}").status_code == 404


def test_keys_and_values_are_found_with_their_places(large, as_):
    page = as_("otto").get(f"{large}?find=novak+99")
    places = [hit.pointer for hit, _ in page.context["hits"]]
    assert places[:2] == ["/orders/99/customer/name", "/orders/990/customer/name"]
    assert "?path=%2Forders%2F99%2Fcustomer%2Fname" in page.content.decode()
    assert len(as_("otto").get(f"{large}?find=number").context["hits"]) == 100
    assert "No matches for" in as_("otto").get(f"{large}?find=zebra").content.decode()


def test_a_part_can_be_copied_as_json(large, as_):
    answer = as_("otto").get(f"{large}?path=/orders/7/customer/a~1b&as=json")
    assert answer["Content-Type"] == "application/json"
    assert json.loads(answer.content) == [7, 7, 7, 7]


def test_input_output_and_position_are_parts_too(run, large, as_):
    Run.objects.filter(pk=run.pk).update(output={"paid": 3}, finished=people.THEN)
    client = as_("otto")
    assert "claims" in client.get(f"{large}?what=input").content.decode()
    assert "paid" in client.get(f"{large}?what=output").content.decode()
    assert "live" in client.get(f"{large}?what=position").content.decode()


def test_values_are_for_those_who_may_inspect_them(large, as_):
    page = as_("ana").get(f"{large}?find=novak").content.decode()
    assert "No access to values" in page
    assert "Novak" not in page
    assert as_("sam").get(large).status_code == 404


def test_a_run_without_checkpoints_says_so(run, as_):
    assert "No checkpoints yet" in as_("otto").get(f"/runs/{run.pk}/state/").content.decode()

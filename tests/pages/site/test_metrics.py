from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from checkpoints.models import Claim, Grant, Tally
from tests.people import THEN, ask, count_all_events, happen, make_run, step
from wfdash.queries.statistics.durations import ALL_TIME, Measure
from wfdash.queries.statistics.gauges import Total, narrow
from wfdash.web.pages.site import health
from wfdash.worker.serving import start_heartbeat

TOKEN = "a-long-token"
LABELS = ("workflow", "step", "error", "state", "kind", "le")
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def scrape(db, settings):
    settings.WFDASH_METRICS_TOKEN = TOKEN

    def read(**headers: str) -> dict[tuple[str, ...], float]:
        """Return name and the labels' values, in the order of ``LABELS`` -> value."""
        answer = Client().get("/metrics", headers={"authorization": f"Bearer {TOKEN}", **headers})
        assert answer.status_code == 200
        read_text = parse_open if "openmetrics" in answer["Content-Type"] else parse
        families = list(read_text(answer.content.decode()))
        return {
            (s.name, *(s.labels[name] for name in LABELS if name in s.labels)): s.value
            for family in families
            for s in family.samples
        }

    return read


@pytest.mark.parametrize("headers", [{}, {"accept": OPEN_METRICS}])
def test_what_was_counted_and_what_stands_can_be_parsed(scrape, run, headers):
    happen(run, ("run.started", None, {}), *step("read", "finished", ms=250.0), *step("pay", "failed", "retrying"))
    happen(run, ("run.failed", None, {"error": {"type": "OSError", "message": 'a "secret"\n'}}))
    ask(run, created=THEN)
    make_run(phase="paused", acted_by="otto")
    make_run(phase="paused")
    start_heartbeat("elsewhere")
    count_all_events()
    told = scrape(**headers)
    name = run.workflow
    assert told["wfdash_runs_started_total", name] == 1
    assert told["wfdash_runs_failed_total", name, "OSError"] == 1
    assert told["wfdash_steps_retried_total", name, "pay"] == 1
    assert told["wfdash_step_duration_seconds_sum", name, "read"] == 0.25
    buckets = [told["wfdash_step_duration_seconds_bucket", name, "read", le] for le in ("0.1", "0.5", "+Inf")]
    assert buckets == [0, 1, 1]
    assert told["wfdash_runs", name, "waiting"] == told["wfdash_runs", name, "held"] == 1
    assert told["wfdash_runs", name, "paused"] == 1
    assert told["wfdash_open_requests", name] == 1
    assert told["wfdash_oldest_request_seconds", name] > 86_400
    assert told["wfdash_workers",] == 1
    assert told["wfdash_events_uncounted",] == 0
    assert told["wfdash_commit_seconds_count",] >= 0


def test_a_run_that_is_ready_is_queued_running_or_interrupted(scrape, run):
    make_run(phase="ready")
    for n, minutes in enumerate((5, -5)):
        driven = make_run(phase="ready")
        expires = health.database_now() + timedelta(minutes=minutes)
        Claim.objects.create(run=driven, token=f"t{n}", worker="w", epoch=1, expires=expires)
    told = scrape()
    assert [told["wfdash_runs", run.workflow, state] for state in ("queued", "running", "interrupted")] == [1, 1, 1]
    assert [told["wfdash_claims", state] for state in ("live", "expired")] == [1, 1]
    assert told["wfdash_runs_unserved", run.workflow] == 2
    start_heartbeat("one", {run.workflow: "v1"})
    assert ("wfdash_runs_unserved", run.workflow) not in scrape()


def test_counters_survive_that_hours_are_forgotten(scrape, run):
    happen(run, ("run.started", None, {}))
    count_all_events()
    Tally.objects.exclude(hour=ALL_TIME).delete()
    assert scrape()["wfdash_runs_started_total", run.workflow] == 1


def test_sockets_are_counted_where_there_are_any(scrape, monkeypatch):
    monkeypatch.setattr(health._process, "sockets", None)
    assert ("wfdash_sockets",) not in scrape()
    monkeypatch.setattr(health._process, "sockets", lambda: 3)
    assert scrape()["wfdash_sockets",] == 3


def test_a_metric_has_so_many_series_at_most(scrape, run, monkeypatch):
    monkeypatch.setattr(health, "MAX_SERIES", 3)
    for n in range(9):
        row = {"measure": Measure.FAILED, "hour": ALL_TIME, "workflow": run.workflow, "count": 1 + n}
        Tally.objects.create(**row, label=f"Error{n}")
    told = {labels[-1]: value for labels, value in scrape().items() if labels[0] == "wfdash_runs_failed_total"}
    assert told == {"Error8": 9, "Error7": 8, "(others)": 28}


def test_narrowing_adds_up():
    one, other = Total(), Total()
    one.add(1, 2, 0.5)
    other.add(1, 3, 1.0)
    joined = narrow({("w", "a", ""): one, ("w", "b", ""): other}, lambda names: names[:1], 10)
    assert (joined["w",].count, joined["w",].seconds, dict(joined["w",].buckets)) == (5, 1.5, {1: 5})


@pytest.mark.parametrize("token", ["", TOKEN])
def test_strangers_get_words_instead(as_, settings, token):
    settings.WFDASH_METRICS_TOKEN = token
    for header in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}):
        answer = as_("").get("/metrics", headers=header)
        assert answer.status_code == 403
        assert b"WFDASH_METRICS_TOKEN" in answer.content
        assert b"wfdash_runs" not in answer.content


@pytest.mark.parametrize(("name", "status"), [("ana", 403), ("vera", 403), ("sam", 403), ("otto", 200), ("adam", 200)])
def test_those_who_operate_everything_may_look(as_, name, status):
    assert as_(name).get("/metrics").status_code == status


def test_who_operates_one_workflow_may_not(as_, everybody):
    Grant.objects.create(user=everybody["sam"], role="operator", workflow="expense_batch")
    assert as_("sam").get("/metrics").status_code == 403


def test_however_many_runs_there_are_the_queries_are_as_many(scrape, run, django_assert_max_num_queries):
    for _ in range(20):
        make_run(phase="failed", finished=THEN)
    with django_assert_max_num_queries(18):
        scrape()

"""A worker that traces: what a run did here and, after an answer, there, is one trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from checkpoints.models import HumanRequest
from tests.worker.conftest import reaches, until
from tests.worker.test_worker import ask_then_finish
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.telemetry import tracing
from wfdash.telemetry.spans import RunIds, Spans, trace_id_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    kept, provider = InMemorySpanExporter(), TracerProvider(id_generator=RunIds())
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(tracing, "tracer", lambda: Spans(provider))
    yield kept
    provider.shutdown()


def test_a_run_that_waited_is_one_trace_of_two_drives(otto, define, start_worker, exporter) -> None:
    define(ask_then_finish)
    start_worker()
    run = start_run(otto, "script", 1)
    until(lambda: len(exporter.get_finished_spans()) == 1)
    until(reaches(run, "waiting"))
    answer_request(otto, HumanRequest.objects.get(run=run).pk, True)
    until(lambda: len(exporter.get_finished_spans()) == 2)
    first, second = exporter.get_finished_spans()
    assert [span.attributes["wfdash.status"] for span in (first, second)] == ["waiting", "completed"]
    assert first.context.trace_id == second.context.trace_id == trace_id_of(run.pk)
    assert first.end_time <= second.start_time

"""A worker that traces: what a run did here and, after an answer, there, is one trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
def exporter(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[InMemorySpanExporter]:
    kept, provider = InMemorySpanExporter(), TracerProvider(id_generator=RunIds())
    provider.add_span_processor(SimpleSpanProcessor(kept))
    settings.WFDASH_OTEL = True
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
    until(lambda: len(exporter.get_finished_spans()) == 3)
    asked, first, second = sorted(exporter.get_finished_spans(), key=lambda span: (span.name, span.start_time))
    assert [span.attributes["wfdash.status"] for span in (first, second)] == ["waiting", "completed"]
    assert first.context.trace_id == second.context.trace_id == trace_id_of(run.pk)
    assert first.end_time <= second.start_time
    assert (asked.name, asked.context.trace_id) == ("request ask", trace_id_of(run.pk))


@pytest.mark.parametrize(("library", "provider"), [("pydantic_ai", "function"), ("openai_agents", "unknown")])
def test_an_agent_has_a_span_for_each_turn_tool_and_approval_and_none_for_what_is_replayed(
    library: str, provider: str, otto, serve, start_worker, exporter
) -> None:
    kit: Any = pytest.importorskip(f"tests.agents.test_{library}")
    script, calls = kit.Script(kit.LOOK, kit.REFUND, kit.SAID), []
    serve(kit.support(script, calls))
    start_worker()
    run = start_run(otto, "support", "Where is my top-secret money?")
    until(reaches(run, "waiting"))
    answer_request(otto, HumanRequest.objects.get(run=run).pk, {"action": "approve"})
    until(reaches(run, "completed"))
    until(lambda: sum(span.name == "run support" for span in exporter.get_finished_spans()) == 2)
    spans = exporter.get_finished_spans()
    steps = {span.context.span_id: span for span in spans if span.name == "step answer"}
    gen_ai = [span for span in spans if span.name.partition(" ")[0] in ("chat", "execute_tool")]
    assert [
        (span.attributes.get("gen_ai.tool.name"), span.attributes.get("gen_ai.tool.call.id")) for span in gen_ai
    ] == [*((None, None), ("look_up", "a"), (None, None), ("refund", "b"), (None, None))]
    assert (script.asked, len(calls), len(steps)) == (3, 2, 2), "the second drive replayed two turns and a tool"
    for span in gen_ai:
        within = steps[span.parent.span_id]
        assert within.start_time <= span.start_time < span.end_time <= within.end_time
        assert span.attributes["gen_ai.conversation.id"] == run.pk
    for span in gen_ai[::2]:
        assert span.attributes["gen_ai.provider.name"] == provider
        assert span.name == f"chat {span.attributes['gen_ai.request.model']}"
        assert span.attributes["gen_ai.usage.output_tokens"] > 0
    (approval,) = [span for span in spans if span.name == "request answer"]
    assert approval.attributes["gen_ai.tool.name"] == "refund"
    (decision,) = approval.events
    assert (decision.attributes["wfdash.action"], decision.attributes["user.id"]) == ("approve", str(otto.user.pk))
    assert decision.attributes["wfdash.waited_seconds"] == pytest.approx(
        (approval.end_time - approval.start_time) / 1e9, abs=0.001
    )
    everything = "".join(span.to_json() for span in spans)
    assert not [word for word in ("top-secret", "otto", "paid", "All done") if word in everything]

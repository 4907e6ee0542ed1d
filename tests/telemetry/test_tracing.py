"""Spans: one trace per run whichever worker drives it, one span per stretch of a step, none open for days."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from checkpoints.events import KINDS
from checkpoints.ids import RunId, WorkflowId, new_run_id
from checkpoints.models import Checkpoint, Run
from checkpoints.records import Claim, Commit, ErrorInfo, Phase, RunFacts, Standing
from tests.people import ask, make_people, make_run, save
from wfdash.access.viewer import viewer_for
from wfdash.actions.requests.answer import answer_request
from wfdash.telemetry import spans, tracing
from wfdash.telemetry.spans import RunIds, Spans, exporters, trace_id_of

EXPIRES = datetime(2026, 1, 1, tzinfo=UTC)
CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def kept() -> Iterator[tuple[Spans, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(id_generator=RunIds())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Spans(provider), exporter
    provider.shutdown()


@pytest.fixture
def no_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_origin_of", lambda run: None)


def claimed(run: RunId, **facts: Any) -> tuple[Claim, RunFacts]:
    claim = Claim(run=run, token="t", worker="w", epoch=1, expires=EXPIRES, **facts)
    return claim, RunFacts(run=run, workflow=WorkflowId("expense"), version="v1")


def told(run: RunId, kind: str, step: str | None = None, phase: Phase | None = None, **data: Any) -> Commit:
    standing = Standing(phase=phase, error=ErrorInfo(type="OSError", message="no")) if phase else None
    return Commit(run=run, events=(KINDS[kind].draft(step, **data),), standing=standing)


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


@pytest.mark.usefixtures("no_origin")
async def test_a_drive_is_a_span_with_one_for_each_step(kept):
    made, exporter = kept
    run = new_run_id()
    trace = await made.follow(*claimed(run))
    trace.saw(told(run, "step.started", "read", activation="1"))
    trace.saw(told(run, "step.finished", "read", activation="1", ms=5.0, output={"salary": "top-secret"}))
    trace.saw(told(run, "run.completed", phase=Phase.COMPLETED, output="top-secret"))
    trace.close()
    trace.close()
    root, step = by_name(exporter)["run expense"], by_name(exporter)["step read"]
    assert len(exporter.get_finished_spans()) == 2
    assert root.context.trace_id == step.context.trace_id == UUID(run).int
    assert step.parent.span_id == root.context.span_id
    assert root.parent is None
    assert root.start_time <= step.start_time <= step.end_time <= root.end_time
    assert (root.attributes["wfdash.status"], root.status.status_code) == ("completed", StatusCode.OK)
    assert step.attributes["wfdash.step"] == "read"
    assert step.attributes["wfdash.workflow.version"] == "v1"
    assert "top-secret" not in root.to_json() + step.to_json()


@pytest.mark.usefixtures("no_origin")
async def test_a_worker_that_continues_a_run_continues_its_trace(kept):
    made, exporter = kept
    run, other = new_run_id(), new_run_id()
    first = await made.follow(*claimed(run))
    first.saw(told(run, "step.started", "review", activation="1"))
    first.saw(told(run, "step.waiting", "review", Phase.WAITING, activation="1"))
    first.close()
    assert by_name(exporter)["step review"].attributes["wfdash.status"] == "waiting"
    assert by_name(exporter)["run expense"].attributes["wfdash.status"] == "waiting"
    exporter.clear()
    second = await made.follow(*claimed(run, recovered=True))
    second.saw(told(run, "step.finished", "review", activation="1", ms=10_000_000.0))
    second.close()
    step, root = by_name(exporter)["step review"], by_name(exporter)["run expense"]
    assert step.context.trace_id == root.context.trace_id == trace_id_of(run)
    # Its function may have run for longer, but not here.
    assert step.start_time >= root.start_time
    assert root.attributes["wfdash.recovered"] is True
    exporter.clear()
    (await made.follow(*claimed(other))).close()
    assert by_name(exporter)["run expense"].context.trace_id == trace_id_of(other)


@pytest.mark.usefixtures("no_origin")
@pytest.mark.parametrize("keys", ["", "k" * 40])
async def test_errors_are_recorded_and_attempts_told_apart(kept, settings, keys):
    settings.WFDASH_ENCRYPTION_KEYS = keys
    made, exporter = kept
    run = new_run_id()
    trace = await made.follow(*claimed(run))
    error = {"type": "OSError", "message": "the-message", "traceback": "the-trace"}
    for attempt in (1, 2):
        trace.saw(told(run, "step.started", "pay", activation="1"))
        trace.saw(told(run, "step.failed", "pay", activation="1", attempt=attempt, error=error))
    trace.saw(told(run, "run.failed", "pay", Phase.FAILED, error={"type": "OSError", "message": "the-message"}))
    trace.close()
    *steps, root = exporter.get_finished_spans()
    assert [step.attributes["wfdash.attempt"] for step in steps] == [1, 2]
    assert {span.status.status_code for span in (*steps, root)} == {StatusCode.ERROR}
    (event,) = steps[0].events
    assert event.attributes["exception.type"] == "OSError"
    assert ("the-message" in steps[0].to_json()) is not bool(keys)
    assert ("the-trace" in steps[0].to_json()) is not bool(keys)


@pytest.mark.usefixtures("no_origin")
async def test_a_turn_that_another_engine_reports_behind_its_step_is_in_the_drive_and_has_no_duration(kept):
    made, exporter = kept
    run, used = new_run_id(), {"model": "m", "provider": "bedrock", "input_tokens": 3, "output_tokens": 2}
    trace = await made.follow(*claimed(run))
    trace.saw(told(run, "step.started", "read", activation="1"))
    trace.saw(told(run, "step.finished", "read", activation="1"))
    trace.saw(told(run, "usage", "read", activation="1", **used))
    trace.saw(told(run, "call.done", "read", activation="2", name="mail", key="k", ms=1.0))
    trace.close()
    chat, root = by_name(exporter)["chat m"], by_name(exporter)["run expense"]
    assert len(exporter.get_finished_spans()) == 3, "a call that is no tool has none"
    assert (chat.start_time, chat.parent.span_id) == (chat.end_time, root.context.span_id)
    assert chat.kind is SpanKind.CLIENT
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": run,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }


@pytest.mark.django_db(transaction=True)
def test_an_answer_stands_where_its_span_cannot_be_made(monkeypatch, settings, caplog):
    class Broken:
        def decided(self, *facts: Any) -> None:
            raise OSError("no")

    people = make_people()
    request = ask(make_run())
    settings.WFDASH_OTEL = True
    monkeypatch.setattr(tracing, "tracer", Broken)
    assert answer_request(viewer_for(people["ana"]), request.pk, {"action": "approve"})
    assert "a span missing of request" in caplog.text


@pytest.mark.usefixtures("no_origin")
async def test_a_step_that_was_cut_off_is_told(kept):
    made, exporter = kept
    run = new_run_id()
    trace = await made.follow(*claimed(run))
    trace.saw(told(run, "step.started", "pay", activation="1"))
    trace.close()
    assert by_name(exporter)["step pay"].attributes["wfdash.status"] == "interrupted"


@pytest.mark.django_db(transaction=True)
def test_a_fork_links_to_the_run_it_came_from(kept):
    make_people()
    made, exporter = kept
    origin: Run = make_run()
    chosen: Checkpoint = save(origin)
    fork = make_run(forked_from=chosen.pk)

    async def drive() -> None:
        (await made.follow(*claimed(RunId(fork.pk)))).close()

    asyncio.run(drive())
    (link,) = by_name(exporter)["run expense"].links
    assert link.context.trace_id == trace_id_of(origin.pk)
    assert link.attributes["wfdash.run.id"] == origin.pk


def test_the_trace_of_the_caller_who_starts_a_run_links_to_the_run(kept):
    made, exporter = kept
    run = new_run_id()
    made.started(run, "expense", {})
    assert exporter.get_finished_spans() == ()
    made.started(run, "expense", {"Traceparent": f"00-{CALLER}-00f067aa0ba902b7-01"})
    span = by_name(exporter)["start expense"]
    assert span.context.trace_id == int(CALLER, 16)
    assert span.links[0].context.trace_id == trace_id_of(run)


def test_ids_that_are_no_numbers_have_a_trace_too():
    assert trace_id_of("my-run") == trace_id_of("my-run") != trace_id_of("your-run")


def test_spans_go_nowhere_unless_a_variable_says_so():
    assert exporters({}) == []
    assert exporters({"OTEL_TRACES_EXPORTER": "none"}) == []
    assert exporters({"OTEL_TRACES_EXPORTER": "console, otlp"}) == ["console", "otlp_proto_http"]
    assert exporters({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}) == ["otlp_proto_http"]
    grpc = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert exporters(grpc) == ["otlp_proto_grpc"]


@pytest.fixture
def fresh() -> Iterator[None]:
    tracing.tracer.cache_clear()
    yield
    tracing.tracer.cache_clear()


@pytest.mark.usefixtures("fresh")
async def test_no_one_asked_so_there_is_nothing(settings):
    settings.WFDASH_OTEL = False
    assert await tracing.follow(*claimed(new_run_id())) is tracing.UNTRACED
    tracing.started("run", "expense", {"traceparent": "x"})


@pytest.mark.usefixtures("fresh")
async def test_without_the_extra_the_remedy_is_logged_and_runs_go_on(settings, monkeypatch, caplog):
    settings.WFDASH_OTEL = True
    monkeypatch.setitem(sys.modules, "wfdash.telemetry.spans", None)
    assert await tracing.follow(*claimed(new_run_id())) is tracing.UNTRACED
    assert "pip install wfdash[otel]" in caplog.text


async def test_a_trace_that_cannot_begin_does_not_keep_the_run(settings, monkeypatch, caplog):
    class Broken:
        async def follow(self, claim: Claim, facts: RunFacts) -> None:
            raise OSError("no")

    settings.WFDASH_OTEL = True
    monkeypatch.setattr(tracing, "tracer", Broken)
    assert await tracing.follow(*claimed(new_run_id())) is tracing.UNTRACED
    assert "no spans" in caplog.text


@pytest.mark.process
def test_where_no_one_asks_nothing_is_imported():
    code = (
        "import os, sys, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'; django.setup();"
        "import wfdash.worker.worker, wfdash.web.api.router; from wfdash.telemetry import tracing;"
        "assert tracing.tracer() is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr

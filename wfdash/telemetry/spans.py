"""OpenTelemetry spans, made from what a run commits. Imported only where spans are enabled.

A run is one trace, its id made from the run's: any later worker continues it. Each drive is a span from claim to
release, with a span for each stretch of a step in it, and in that for each turn of a model and tool of an agent, with
the names of OpenTelemetry's conventions for GenAI (0.1); nothing is open while a run waits for people. Values never
become attributes, and where content is encrypted neither do error messages.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any
from uuid import UUID

from django.db import connections
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, HumanRequest, Run
from checkpoints.models.fields import current_encryptor
from checkpoints.records import Claim, Commit, EventDraft, RunFacts
from wfdash import __version__

log = logging.getLogger(__name__)

PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
ENDS: Mapping[str, str] = {
    EventKind.STEP_FINISHED: "finished",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_WAITING: "waiting",
    EventKind.STEP_SLEEPING: "sleeping",
}
PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""A library's name of a provider -> that of the conventions, where they differ."""
_trace: ContextVar[int | None] = ContextVar("wfdash_trace", default=None)


def trace_id_of(run: str) -> int:
    """Return the trace id of a run: its own number, where its id is one."""
    try:
        return UUID(run).int
    except ValueError:
        return int.from_bytes(hashlib.sha256(run.encode()).digest()[:16])


def link_to(run: str, relation: str) -> Link:
    """Return a link to a run's trace."""
    span = int.from_bytes(hashlib.sha256(run.encode()).digest()[-8:])
    context = SpanContext(trace_id_of(run), span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return Link(context, {"wfdash.run.id": run, "wfdash.relation": relation})


class RunIds(RandomIdGenerator):
    """Gives a run's first span in this process the trace id of its run."""

    def generate_trace_id(self) -> int:
        """Return the trace id that is set, or a random one."""
        return _trace.get() or super().generate_trace_id()


@contextmanager
def _in_trace(run: str) -> Iterator[None]:
    token = _trace.set(trace_id_of(run))
    try:
        yield
    finally:
        _trace.reset(token)


class Spans:
    """Makes spans with a provider whose ids are ``RunIds``."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("wfdash", __version__)

    async def follow(self, claim: Claim, facts: RunFacts) -> DriveSpans:
        """Start the span of a drive (one query, in a thread) and return its spans."""
        origin = await asyncio.to_thread(_origin_of, claim.run)
        attributes: dict[str, Any] = {
            "wfdash.run.id": claim.run,
            "wfdash.workflow": facts.workflow,
            "wfdash.workflow.version": facts.version,
            "wfdash.worker": claim.worker,
            "wfdash.epoch": claim.epoch,
            "wfdash.recovered": claim.recovered,
        }
        links = [link_to(origin, "forked from")] if origin else []
        with _in_trace(claim.run):
            # A context of its own: the caller's span is unrelated to the run's.
            root = self._tracer.start_span(f"run {facts.workflow}", Context(), attributes=attributes, links=links)
        return DriveSpans(root, self._tracer, facts)

    def started(self, run: str, workflow: str, headers: Mapping[str, str]) -> None:
        """Add a span to the caller's trace that links to the run's; nothing without a caller's trace."""
        given = {name.lower(): value for name, value in headers.items()}
        if "traceparent" not in given:
            return
        context = TraceContextTextMapPropagator().extract(given, Context())
        attributes = {"wfdash.run.id": run, "wfdash.workflow": workflow}
        links = [link_to(run, "started")]
        self._tracer.start_span(f"start {workflow}", context, SpanKind.SERVER, attributes, links).end()

    def decided(self, request: HumanRequest, by: int | None, action: str, now: datetime) -> None:
        """Add the span of a request from asked to decided: a root of its own, as no drive waits for it."""
        attributes: dict[str, Any] = {
            "wfdash.run.id": request.run_id,
            "wfdash.workflow": request.workflow,
            "wfdash.step": request.step,
            "wfdash.request.id": request.pk,
            "gen_ai.conversation.id": request.run_id,
        }
        tool = request.card.get("tool")
        if isinstance(tool, dict):
            attributes["gen_ai.tool.name"] = str(tool.get("name"))
        decision = {"wfdash.action": action, "wfdash.waited_seconds": (now - request.created).total_seconds()}
        if by is not None:
            decision["user.id"] = str(by)
        name, asked = f"request {request.step}", _nanos(request.created)
        with _in_trace(request.run_id):
            span = self._tracer.start_span(name, Context(), attributes=attributes, start_time=asked)
        span.add_event("wfdash.decision", decision, _nanos(now))
        span.end(_nanos(now))


class DriveSpans:
    """The spans of one drive."""

    def __init__(self, root: Span, tracer: Any, facts: RunFacts) -> None:
        self._root = root
        self._tracer = tracer
        self._facts = facts
        self._context = set_span_in_context(root, Context())
        self._since = time.time_ns()
        self._open: dict[str, Span | None] = {}
        """Activation -> the span of its step, None once it has ended."""
        self._ended = False

    def saw(self, commit: Commit) -> None:
        """Record spans of the steps that ended, and the run's status."""
        now = time.time_ns()
        try:
            for event in commit.events:
                self._take_event(event, now)
        except Exception:
            # It is committed: a failure of tracing must not end the drive.
            log.exception("There is a span missing of run %s", self._facts.run)
        if commit.standing is not None:
            self._root.set_attribute("wfdash.status", commit.standing.phase.value)

    def _take_event(self, event: EventDraft, now: int) -> None:
        act = str(event.data.get("activation", ""))
        if event.kind == EventKind.STEP_STARTED and event.step:
            self._open[act] = self._step(event.step, now)
        elif event.kind in ENDS and event.step:
            self._end_step(event, act, now)
        elif event.kind == EventKind.USAGE or "call" in event.data:
            self._take_call(event, act, now)
        elif event.kind == EventKind.RUN_FAILED:
            _failed(self._root, event, now)
        elif event.kind == EventKind.RUN_COMPLETED:
            self._root.set_status(Status(StatusCode.OK))

    def _end_step(self, event: EventDraft, act: str, now: int) -> None:
        span, self._open[act] = self._open.get(act), None
        if span is None:
            # It was started by an earlier drive, and continues here.
            ms = event.data.get("ms")
            begun = max(now - int(ms * 1e6), self._since) if isinstance(ms, int | float) else self._since
            span = self._step(event.step or "", begun)
        span.set_attribute("wfdash.status", ENDS[event.kind])
        for name in ("attempt", "item"):
            if isinstance(event.data.get(name), int):
                span.set_attribute(f"wfdash.{name}", event.data[name])
        if event.kind == EventKind.STEP_FAILED:
            _failed(span, event, now)
        span.end(now)

    def _take_call(self, event: EventDraft, act: str, now: int) -> None:
        data, ended = event.data, now if event.at is None else _nanos(event.at)
        facts: dict[str, Any] = {"gen_ai.conversation.id": self._facts.run}
        if event.kind == EventKind.USAGE:
            kind, operation, of = SpanKind.CLIENT, "chat", str(data["model"])
            provider = str(data.get("provider", "unknown"))
            facts |= {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": of}
            facts |= {f"gen_ai.usage.{name}": data[name] for name in ("input_tokens", "output_tokens")}
        else:
            kind, operation, of = SpanKind.INTERNAL, "execute_tool", str(data["name"])
            facts |= {"gen_ai.tool.name": of}
            facts |= {"gen_ai.tool.call.id": data["call"]} if data["call"] else {}
        if event.step and act not in self._open:
            self._open[act] = self._step(event.step, self._since)  # As in _end_step.
        parent = self._open.get(act)
        span = self._tracer.start_span(
            f"{operation} {of}",
            self._context if parent is None else set_span_in_context(parent, Context()),
            kind,
            {"gen_ai.operation.name": operation, **facts},
            start_time=ended - int(data.get("ms", 0) * 1e6),
        )
        span.end(ended)

    def _step(self, step: str, begun: int) -> Span:
        attributes = {
            "wfdash.run.id": self._facts.run,
            "wfdash.workflow": self._facts.workflow,
            "wfdash.workflow.version": self._facts.version,
            "wfdash.step": step,
        }
        span: Span = self._tracer.start_span(f"step {step}", self._context, attributes=attributes, start_time=begun)
        return span

    def close(self) -> None:
        """End the spans; steps that were interrupted here end as interrupted."""
        if self._ended:
            return
        self._ended = True
        for span in filter(None, self._open.values()):
            span.set_attribute("wfdash.status", "interrupted")
            span.end()
        self._root.end()


def _nanos(at: datetime) -> int:
    return int(at.timestamp() * 1e9)


def _failed(span: Span, event: EventDraft, now: int) -> None:
    error = event.data.get("error")
    details: dict[str, Any] = error if isinstance(error, dict) else {}
    facts = {"exception.type": str(details.get("type", "")), "exception.message": str(details.get("message", ""))}
    if details.get("traceback"):
        facts["exception.stacktrace"] = str(details["traceback"])
    if current_encryptor().active:
        facts = {"exception.type": facts["exception.type"]}
    span.add_event("exception", facts, now)
    span.set_status(Status(StatusCode.ERROR, facts.get("exception.message") or facts["exception.type"]))


def _origin_of(run: str) -> str | None:
    """Return the run that this one was forked from."""
    try:
        forked = Run.objects.filter(pk=run, forked_from__isnull=False).values("forked_from")
        return Checkpoint.objects.filter(pk__in=forked).values_list("run_id", flat=True).first()
    finally:
        connections.close_all()


def open_tracer() -> Spans:
    """Return spans exported as the standard ``OTEL_*`` variables say; not at all if they say nothing."""
    detected = OTELResourceDetector().detect()
    named = {} if SERVICE_NAME in detected.attributes else {SERVICE_NAME: "wfdash"}
    provider = TracerProvider(id_generator=RunIds(), resource=Resource.create(named))
    for name in exporters(os.environ):
        make = _exporter(name)
        if make is not None:
            provider.add_span_processor(BatchSpanProcessor(make()))
    return Spans(provider)


def exporters(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the configured exporters, as packages register them."""
    otlp = "otlp" if any(environment.get(name) for name in ENDPOINTS) else ""
    asked = environment.get("OTEL_TRACES_EXPORTER", otlp).split(",")
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    spoken = PROTOCOLS.get(protocol or "http/protobuf", "otlp_proto_http")
    names = [name.strip() for name in asked]
    return [spoken if name == "otlp" else name for name in names if name not in ("", "none")]


def _exporter(name: str) -> Callable[[], Any] | None:
    found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        log.error(
            "There is no exporter %s for spans: pip install opentelemetry-exporter-%s", name, name.replace("_", "-")
        )
        return None
    make: Callable[[], Any] = found[0].load()
    return make

"""The browser form, the desk and the engine agree on every answer: generated from fifty schemas, fitting or not.

``WFDASH_LONG=1`` (``make answers``) tries 10,000 answers, else a few per schema.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from checkpoints.models import HumanRequest
from checkpoints.records import Checkpoint, Request
from tests.forms.answers import fitting, meddled
from tests.forms.browser import draw, fill, send
from tests.forms.schemas import CASES, Case
from tests.forms.served.workflows import ALL, ANY
from tests.pages.controls import post_of
from wfdash.actions.requests.answer import validate_answer
from wfdash.contract import InvalidInput
from wfdash.values.codec import codec_for
from wfdash.values.schemas.validate import flaws_of, problems_of
from wfdash.web.pages.ui.forms.form import BoundForm, FormView
from wfdash.web.pages.ui.forms.read import same, write
from wfdash.workflow import Failed, Finished, Waiting

LONG = os.environ.get("WFDASH_LONG") == "1"
PER_SCHEMA = 200 if LONG else 4
CHECKED = settings(
    max_examples=PER_SCHEMA,
    deadline=None,
    derandomize=not LONG,
    database=None,
    phases=(Phase.generate, Phase.shrink) if LONG else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
pytestmark = pytest.mark.timeout(1800 if LONG else 300)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


@dataclass(frozen=True)
class Asked:
    """A question that waits: as the desk has it, and as the engine does."""

    row: HumanRequest
    request: Request
    checkpoint: Checkpoint


@cache
def started(name: str) -> Waiting:
    outcome = asyncio.run(ALL[name].run(None))
    assert isinstance(outcome, Waiting)
    return outcome


def asked(case: Case) -> Asked:
    """Ask for an answer of the case; one without a type is asked for by its schema alone."""
    outcome = started(case.name if case.typed else "anything goes")
    (request,) = outcome.requests
    if not case.typed:
        request = request.model_copy(update={"answer_schema": case.schema})
    workflow = (ALL[case.name] if case.typed else ANY).name
    row = HumanRequest(key=request.key, step=request.step, workflow=workflow, answer_schema=request.answer_schema)
    return Asked(row, request, outcome.checkpoint.model_copy(update={"requests": (request,)}))


def engine_takes(loop: asyncio.Runner, case: Case, question: Asked, value: Any) -> bool:
    """Whether the run goes on to its end with this answer. A step that fails with it would be a broken promise."""
    workflow = ALL[case.name] if case.typed else ANY
    try:
        outcome = loop.run(workflow.run(answers={question.request.key: value}, checkpoint=question.checkpoint))
    except InvalidInput:
        return False
    assert isinstance(outcome, Finished), outcome.error if isinstance(outcome, Failed) else outcome
    return True


def alike(case: Case, one: Any, other: Any) -> bool:
    """Whether two answers that are taken mean the same: a form shows defaults, and so sends them."""
    if same(one, other) or not case.typed:
        return same(one, other)
    codec = codec_for(case.kind)
    return bool(codec.decode(one) == codec.decode(other))


def secrets_of(case: Case, value: Any) -> dict[str, str]:
    """What a person has to type again: secrets are not drawn."""
    given = value if isinstance(value, dict) else {}
    return {name: given[name] for name in case.secrets if isinstance(given.get(name), str)}


def is_taken(question: Asked, bound: BoundForm) -> bool:
    """Whether the page would take what was sent: the form first, then the desk."""
    return bound.is_valid and not validate_answer(question.row, bound.value)


@cases
def test_the_form_the_desk_and_the_engine_agree(loop: asyncio.Runner, case: Case) -> None:
    question = asked(case)
    told: set[bool] = set()

    @CHECKED
    @given(fitting(case.schema) | meddled(case.schema))
    def agree(value: Any) -> None:
        assume(not flaws_of(value))
        taken = not validate_answer(question.row, value)
        told.add(taken)
        assert engine_takes(loop, case, question, value) is taken
        text = FormView.from_schema(question.request.answer_schema).bind(post_of("", _json=write(value)))
        assert same(text.value, value)
        assert is_taken(question, text) is taken
        bound = send(FormView.from_schema(question.request.answer_schema, initial=value), secrets_of(case, value))
        if taken:
            assert is_taken(question, bound), (bound.value, bound.errors)
            assert alike(case, bound.value, value), (bound.value, value)
        elif same(bound.value, value):
            assert not is_taken(question, bound)
        assert bound.notes.errors or bound.is_valid is not bool(problems_of(case.schema, bound.value))
        again = send(bound, secrets_of(case, bound.value))
        assert same(again.value, bound.value), (again.value, bound.value)

    agree()
    if LONG and case.name not in {"a text", "empty"}:
        assert told == {True, False}


@cases
def test_an_answer_can_be_typed_into_the_empty_form(case: Case) -> None:
    question = asked(case)

    @settings(CHECKED, max_examples=PER_SCHEMA // 10 or 2)
    @given(fitting(case.schema, plain=True) | fitting(case.schema, full=True, plain=True))
    def type_in(value: Any) -> None:
        assume(value is not None and not validate_answer(question.row, value))
        schema = question.request.answer_schema
        wanted = post_of(draw(FormView.from_schema(schema, initial=value)), **secrets_of(case, value))
        assume(not any(name.endswith(("@", "$")) for name in wanted))
        bound = fill(FormView.from_schema(schema), wanted)
        assert is_taken(question, bound), (bound.value, bound.errors)
        assert alike(case, bound.value, value), (bound.value, value)

    type_in()


@cases
def test_whatever_is_sent_is_read_drawn_again_and_never_an_error(case: Case) -> None:
    question = asked(case)
    controls = st.dictionaries(st.integers(0, 30), st.text(max_size=12), max_size=6)
    buttons = st.sampled_from(["", "_add", "_remove", "_up", "_down", "_show", "_mode"])

    @settings(CHECKED, max_examples=PER_SCHEMA // 4 or 2)
    @given(fitting(case.schema), controls, buttons, st.integers(0, 40), st.text(max_size=8))
    def meddle(value: Any, typed: dict[int, str], button: str, target: int, odd: str) -> None:
        form = FormView.from_schema(question.request.answer_schema, initial=value)
        post = post_of(draw(form))
        names = list(post) or ["value"]
        for number, text in typed.items():
            post[names[number % len(names)]] = text
        if button:
            post[button] = {0: odd, 1: "json", 2: "fields"}.get(target, names[target % len(names)].rstrip("!?@#$"))
        bound = form.bind(post)
        assert not bound.is_valid or not problems_of(case.schema, bound.value)
        again = send(bound)
        draw(again)
        draw(again.bind(post_of(draw(again), _mode="json")))

    meddle()

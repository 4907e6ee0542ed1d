"""Whatever starts a run is judged as the start form judges it: programs, schedules, and edits of an input."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import assume, given, settings
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

from tests.forms.answers import fitting, meddled
from tests.forms.schemas import KINDS
from tests.forms.test_agreement import CHECKED, PER_SCHEMA
from tests.pages.controls import post_of
from wfdash.contract import Edits, InvalidInput
from wfdash.engines.native import NativeEngine
from wfdash.values.schemas.validate import flaws_of, problems_of
from wfdash.web.pages.ui.forms.form import FormView
from wfdash.web.pages.ui.forms.read import write
from wfdash.workflow import Context, Waiting, Workflow
from wfdash.workflow.edit import edit

ENGINE = NativeEngine()


class Letter(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    paper: Base64Bytes = Field(json_schema_extra={"contentMediaType": "application/pdf", "x-max-bytes": 100})
    to: str = Field("", alias="receiver", max_length=5)


def starting(kind: Any) -> Workflow:
    wf = Workflow("starting")

    @wf.step(start=True)
    async def take(message: kind, ctx: Context) -> None:
        await ctx.sleep(3600)

    return wf


STARTED = {name: starting(kind) for name, kind in KINDS.items()}
LETTER = starting(Letter)


def refusal(workflow: Workflow, value: Any) -> list[dict[str, Any]]:
    try:
        ENGINE.check_input(workflow, value)
    except InvalidInput as error:
        return error.errors
    return []


@pytest.mark.parametrize("name", STARTED)
def test_a_program_s_start_is_refused_as_the_form_refuses_it(name: str) -> None:
    workflow = STARTED[name]
    schema = workflow.input_schema()

    @settings(CHECKED, max_examples=PER_SCHEMA)
    @given(fitting(schema) | meddled(schema))
    def agree(value: Any) -> None:
        assume(not flaws_of(value))
        form = FormView.from_schema(schema).bind(post_of("", _json=write(value)))
        found = problems_of(schema, value)
        assert form.is_valid is not bool(found)
        assert not found or refusal(workflow, value) == found

    agree()


def letter(content: bytes, **more: str) -> dict[str, str]:
    return {"paper": base64.b64encode(content).decode(), **more}


@pytest.mark.parametrize("content", [b"hello text", b"%PDF-1.7" + b"x" * 200])
def test_a_file_that_the_form_refuses_starts_nothing(content: bytes) -> None:
    (problem,) = refusal(LETTER, letter(content))
    assert problem in problems_of(LETTER.input_schema(), letter(content))
    assert problem["loc"] == ["paper"]


async def test_a_file_that_the_form_refuses_is_no_edit_of_an_input_either() -> None:
    waiting = await LETTER.run(letter(b"%PDF-1.7"), park_after=0)
    assert isinstance(waiting, Waiting)
    (one,) = ENGINE.look_ahead(LETTER, waiting.checkpoint, waiting.checkpoint.created).doing
    for value in (letter(b"hello text"), letter(b"%PDF-1.7", receiver="too long")):
        with pytest.raises(InvalidInput) as refused:
            edit(LETTER.graph, waiting.checkpoint, Edits(messages={one.activation: value}))
        found = [{**one, "loc": one["loc"][2:]} for one in refused.value.errors]
        assert found == problems_of(LETTER.input_schema(), value)
    assert not edit(LETTER.graph, waiting.checkpoint, Edits(messages={one.activation: one.message})).words


def test_what_was_stored_with_a_model_s_own_names_still_starts() -> None:
    stored = ENGINE.check_input(LETTER, letter(b"%PDF-1.7", receiver="ana"))
    assert stored["to"] == "ana"
    assert ENGINE.check_input(LETTER, stored) == stored
    assert refusal(LETTER, stored | {"to": "too long"})


def test_the_words_of_a_validator_are_told_without_pydantic_s_own() -> None:
    (problem,) = refusal(STARTED["a judged number"], 3)
    assert problem == {"loc": [], "msg": "Must be even: take the next number"}

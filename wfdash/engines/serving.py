"""``serve``: what an object of another library does not say of itself, for the engine that executes it. Pure.

A graph of LangGraph or a workflow of Agent Framework is served as it is, under its own name or its variable's. Whom its
questions are addressed to, its title, or what it is called with has no place in it: that is said here.

```python
from wfdash.engines import serve

refunds = serve(graph, title="Refunds", policies={"pay_out": Policy(by="finance", need=2)})
```
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

from pydantic import PydanticUserError, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from checkpoints.records import Json, JsonObject, Request, frozen
from checkpoints.storage import PortType
from wfdash.contract import DEFAULT_QUEUE, problem_of_limit, problem_of_queue
from wfdash.questions.card import AnswerType
from wfdash.questions.policy import Policy
from wfdash.values.codec import codec_for
from wfdash.values.errors import WorkflowError


class NotServable(ValueError):
    """``serve`` was given an object that no engine takes, or options that do not fit it: the message says which."""


@frozen
class Served:
    """An object of another library as it is served: the definition that engines of such objects get.

    ``target`` is the object, or the function that makes one for each use if ``factory``. ``variable`` is the name of
    the module's variable.
    """

    target: Any
    variable: str = ""
    factory: bool = False
    name: str = ""
    title: str = ""
    doc: str = ""
    policies: Mapping[str, Policy] = field(default_factory=dict)
    """Step or tool -> the policy of its questions."""
    policy: Policy | None = None
    """The policy of all other questions."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Step -> what its questions take where the object does not say it: a type, or a JSON Schema as a dict."""
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Any = None
    input: Any = None
    """The type of its input, or a JSON Schema as a dict; None: as the object says."""
    secrets: frozenset[str] = frozenset()
    queue: str = DEFAULT_QUEUE
    """Only workers that serve this queue take its runs."""
    limit: int | None = None
    """How many of its runs may execute at once, in all workers."""

    @property
    def given_name(self) -> str:
        """Return the name it was given, else that of its variable."""
        return self.name or self.variable

    @property
    def options(self) -> tuple[str, ...]:
        """Return the names of what was said with ``serve``, as its parameters are called."""
        usual = Served(target=None)
        names = ("name", "title", "doc", "policies", "policy", "answers", "config", "context", "input", "secrets")
        return tuple(name for name in (*names, "queue", "limit") if getattr(self, name) != getattr(usual, name))

    def make(self) -> Any:
        """Return the object: a new one if it has a factory."""
        return self.target() if self.factory else self.target

    def policy_of(self, *names: str) -> Policy | None:
        """Return the policy of a question by the first of these names (tool, step) that has one."""
        found = next((self.policies[name] for name in names if name in self.policies), None)
        return self.policy if found is None else found.over(self.policy)

    def answer_schema(self, step: str) -> JsonObject | None:
        """Return the schema of what a step's questions take; None if it was not said."""
        if step not in self.answers:
            return None
        return {"title": "Answer", **AnswerType(self.answers[step]).schema()}

    def check_steps(self, steps: Iterable[str]) -> None:
        """Raise ``NotServable`` if answers are given of a step that there is not."""
        known = list(steps)
        for name in self.answers:
            if name not in known:
                near = get_close_matches(name, known, 1)
                close = f"did you mean {near[0]!r}?" if near else f"its steps are {', '.join(known)}"
                raise NotServable(f"serve: answers[{name!r}] is of no step: {close}")

    def check_answer(self, request: Request, value: Json) -> list[JsonObject]:
        """Return what the type that was given for a question's answer rejects in a value valid by its schema."""
        kind = self.answers.get(request.step)
        given = None if kind is None or isinstance(kind, dict) else self.answer_schema(request.step)
        return problems_by_type(kind, value) if given is not None and given == request.answer_schema else []

    def as_variable(self, name: str) -> Served:
        """Return it with the name of its variable, unless it has one."""
        return self if self.variable else replace(self, variable=name)


def serve(
    target: Any,
    *,
    name: str = "",
    title: str = "",
    doc: str = "",
    policies: Mapping[str, Policy] | None = None,
    policy: Policy | None = None,
    by: str | Iterable[str] = (),
    answers: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    context: Any = None,
    input: Any = None,  # noqa: A002
    secrets: Iterable[str] = (),
    queue: str = DEFAULT_QUEUE,
    limit: int | None = None,
) -> Served:
    """Serve a graph or workflow of another library, or a function without parameters that makes one.

    ``name``: what runs are kept under (default: the variable's name); ``policies``: step or tool -> the policy of its
    questions; ``policy``, ``by``: of all others; ``answers``: step -> the type of the answer to its questions, or a
    JSON Schema, where the library does not say it; ``config`` and ``context``: what the library is called with, the
    same for all runs (else a graph with a ``context_schema`` asks each run); ``input``: the type of the input, where
    the object does not say; ``secrets``: fields that pages hide; ``queue``: only workers that serve it take its runs;
    ``limit``: how many may execute at once. ``ValueError``: an argument of another kind, or two that say the same.
    """
    asked = (by,) if isinstance(by, str) else tuple(by)
    if asked and asked != ("",) and policy is not None:
        raise ValueError("serve: give by= or policy=, not both")
    _refuse_unfit(policies or {}, answers or {})
    for words, given in (("name", name), ("title", title), ("doc", doc)):
        if not isinstance(given, str):
            raise ValueError(f"serve: {words} must be text, not {type(given).__name__}")
    if problem := problem_of_queue(queue) or problem_of_limit(limit):
        raise ValueError(f"serve: {problem}")
    return Served(
        target=target,
        name=name,
        title=title,
        doc=doc,
        policies=dict(policies or {}),
        answers=dict(answers or {}),
        policy=policy if policy is not None or not any(asked) else Policy(by=asked),
        config=dict(config or {}),
        context=context,
        input=input,
        secrets=frozenset([secrets] if isinstance(secrets, str) else secrets),
        queue=queue,
        limit=limit,
    )


def _refuse_unfit(policies: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    if wrong := [key for key, one in policies.items() if not isinstance(one, Policy)]:
        raise ValueError(f"serve: policies[{wrong[0]!r}] must be a Policy")
    for step, kind in answers.items():
        try:
            AnswerType(kind)
        except (PydanticUserError, PydanticSchemaGenerationError, WorkflowError, TypeError) as error:
            raise ValueError(f"serve: answers[{step!r}]: no form can be made from {kind!r}") from error


def problems_by_type(kind: Any, value: Json) -> list[JsonObject]:
    """Return what a type rejects in a value, by field."""
    try:
        codec_for(kind).adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [{"loc": list(one["loc"]), "msg": one["msg"].removeprefix("Value error, ")} for one in found]
    except Exception as error:  # The author's own check failed: so would the code that gets the answer.
        words = f"The answer check failed with an error; tell the workflow's author: {type(error).__name__}: {error}"
        return [{"loc": [], "msg": words}]
    return []


@runtime_checkable
class Adopts(Protocol, metaclass=PortType):
    """An engine for objects of another library. ``accepts`` gets such an object, every other method a ``Served``."""

    def parts(self, served: Served) -> Iterable[object]:
        """Return the objects that a served one is made of, such as its builder: they are not served as well."""

"""The declared state of a workflow and its sub-workflows as one flat set of keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel

from wfdash.values.codec import Codec, codec_for
from wfdash.workflow.authoring.steps import read_hints
from wfdash.workflow.compiler.graph import StateRule
from wfdash.workflow.compiler.plan import GraphPlan

Default = Callable[[], Any]


def read_state(plan: GraphPlan) -> StateRule:
    """Return the rules of every namespace; problems are added to the plan."""
    codecs: dict[str, Codec] = {}
    defaults: dict[str, Default] = {}
    reducers: dict[str, Callable[[Any, Any], Any]] = {}
    typed = set()
    for prefix, level in plan.namespaces.items():
        if level.state is not None:
            typed.add(prefix)
            for key, kind, default in _fields(plan, level.name, level.state):
                codecs[prefix + key] = codec_for(kind)
                if default is not None:
                    defaults[prefix + key] = default
        for key, reducer in level.reducers.items():
            if level.state is not None and prefix + key not in codecs:
                plan.problems.append(f"workflow {level.name!r}: reducer for {key!r}, which its state does not have")
            reducers[prefix + key] = reducer
    return StateRule(codecs=codecs, defaults=defaults, reducers=reducers, typed=frozenset(typed))


def _fields(plan: GraphPlan, name: str, model: Any) -> Iterator[tuple[str, Any, Default | None]]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return _model_fields(model)
    if dataclasses.is_dataclass(model):
        return _dataclass_fields(model)
    plan.problems.append(f"workflow {name!r}: state= must be a pydantic model or a dataclass, not {model!r}")
    return iter(())


def _model_fields(model: type[BaseModel]) -> Iterator[tuple[str, Any, Default | None]]:
    for key, info in model.model_fields.items():
        kind: Any = info.annotation
        for extra in info.metadata:
            kind = Annotated[kind, extra]
        default = None if info.is_required() else (lambda info=info: info.get_default(call_default_factory=True))
        yield key, kind, default


def _dataclass_fields(model: Any) -> Iterator[tuple[str, Any, Default | None]]:
    hints = read_hints(model, {})
    for item in dataclasses.fields(model):
        default: Default | None = None
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory
        elif item.default is not dataclasses.MISSING:
            default = lambda item=item: item.default  # noqa: E731
        yield item.name, hints[item.name], default

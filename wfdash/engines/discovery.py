"""Which objects of a module are workflows, of which engine, and under which name they are served. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from wfdash.contract import Engine
from wfdash.engines.serving import Adopts, NotServable, Served


@dataclass(frozen=True, kw_only=True)
class Found:
    """A definition and the engine that takes it; or why it cannot be served, and under which variable it is."""

    variable: str
    definition: object = None
    engine: Engine | None = None
    error: Exception | None = None


def definitions_in(module: ModuleType, engines: Sequence[Engine]) -> list[Found]:
    """Return what a module serves, in its order; an object with two names once.

    Where ``serve(...)`` names objects of an engine, it says all: other objects of that engine in the module are parts.
    """
    values = dict(vars(module))
    named, bare = list(_named(values, engines)), list(_bare(values, engines))
    said = {one.engine.name for one in named if one.engine is not None}
    kept = [*named, *(one for one in bare if one.engine is not None and one.engine.name not in said)]
    parts = {id(part) for one in kept for part in _parts(one)}
    order = list(values)
    whole = [one for one in kept if id(target_of(one.definition)) not in parts]
    return sorted(whole, key=lambda one: order.index(one.variable))


def _named(values: Mapping[str, object], engines: Sequence[Engine]) -> Iterator[Found]:
    seen: set[int] = set()
    for variable, value in values.items():
        if isinstance(value, Served) and id(value) not in seen:
            seen.add(id(value))
            yield _adopt(variable, value, engines)


def _bare(values: Mapping[str, object], engines: Sequence[Engine]) -> Iterator[Found]:
    seen: set[int] = set()
    for variable, value in values.items():
        engine = _taker(value, engines)
        if engine is not None and id(value) not in seen:
            seen.add(id(value))
            given = Served(target=value, variable=variable) if isinstance(engine, Adopts) else value
            yield Found(variable=variable, definition=given, engine=engine)


def _adopt(variable: str, served: Served, engines: Sequence[Engine]) -> Found:
    """Return an object given to ``serve`` with its engine. A function that no engine takes is called for it."""
    try:
        engine = _taker(served.target, engines)
        if engine is None and callable(served.target):
            served = replace(served, factory=True)
            engine = _taker(served.make(), engines)
        if engine is None:
            raise NotServable(_nothing_takes(variable, served))
        if isinstance(engine, Adopts):
            return Found(variable=variable, definition=served.as_variable(variable), engine=engine)
        if served.options or served.factory:
            raise NotServable(
                f"serve({variable}): a workflow of the engine {engine.name!r} says itself what serve() would: "
                "take serve() away"
            )
        return Found(variable=variable, definition=served.target, engine=engine)
    except Exception as error:
        return Found(variable=variable, error=error)


def _nothing_takes(variable: str, served: Served) -> str:
    what = f"what {getattr(served.target, '__name__', 'the function')}() returns" if served.factory else "this object"
    kind = type(served.target).__name__ if not served.factory else "function"
    return f"serve({variable}): no engine takes {what} ({kind}). See Engines in the documentation for what is taken"


def _taker(value: object, engines: Sequence[Engine]) -> Engine | None:
    return next((engine for engine in engines if engine.accepts(value)), None)


def target_of(definition: object) -> object:
    """Return the author's own object: the one that is served, without what ``serve`` says of it."""
    return definition.target if isinstance(definition, Served) else definition


def _parts(found: Found) -> Iterator[object]:
    engine = found.engine
    if isinstance(found.definition, Served) and engine is not None and isinstance(engine, Adopts):
        yield from engine.parts(found.definition)

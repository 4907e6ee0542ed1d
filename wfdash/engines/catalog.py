"""Engines by name, and workflow name -> definition and engine.

Loads the ``workflows`` module of every app in ``WFDASH_APPS``, everything ``WFDASH_WORKFLOWS`` names, and the workflows
with which other programs ask people, unless ``WFDASH_ASK_PEOPLE`` forbids it. A module that fails to import, or a
definition that is not valid, becomes a ``Failure`` with its traceback and affects nothing else; beside it stands the
last good version, where files are read again. A server without workers of its own also serves what workers have
published.

Calls of authors' code by threads that have others to serve end in time: one that hangs is left behind, and says where.

A package offers its engine as an entry point of the group ``wfdash.engines``. An engine that cannot be loaded is a
``Missing`` with what to do about it; the others are used all the same.
"""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections

from checkpoints.records import Pairs, frozen
from wfdash.contract import (
    DEFAULT_QUEUE,
    Addressees,
    Description,
    Engine,
    LocatesCode,
    LocatesFlaws,
    NamesPeople,
    NamesSecrets,
    TakesEdits,
)
from wfdash.domain import graph_diff
from wfdash.domain.errors import NotFound
from wfdash.engines.published import Consult, Published, published_engine
from wfdash.engines.serving import Adopts, NotServable, Served
from wfdash.installation import workflow_sources
from wfdash.installation.workflow_sources import (
    SourceFile,
    author_modules,
    forget,
    is_code_of,
    is_own,
    load_sources,
    own_traceback,
    remedy_for,
    root_of,
)
from wfdash.values.errors import message_of
from wfdash.values.schemas.secrets import secret_names


@frozen
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
    unique: dict[int, tuple[str, object]] = {}
    for variable, value in values.items():
        unique.setdefault(id(value), (variable, value))
    named = [_adopt(variable, value, engines) for variable, value in unique.values() if isinstance(value, Served)]
    bare = list(_bare(unique.values(), engines))
    said = {one.engine.name for one in named if one.engine is not None}
    kept = [*named, *(one for one in bare if one.engine is not None and one.engine.name not in said)]
    parts: set[int] = set()
    for one in kept:
        if isinstance(one.definition, Served) and one.engine is not None and isinstance(one.engine, Adopts):
            parts |= set(map(id, one.engine.parts(one.definition)))
    order = list(values)
    whole = [one for one in kept if id(target_of(one.definition)) not in parts]
    return sorted(whole, key=lambda one: order.index(one.variable))


def _bare(values: Iterable[tuple[str, object]], engines: Sequence[Engine]) -> Iterator[Found]:
    for variable, value in values:
        if (engine := _taker(value, engines)) is not None:
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


# Calls of authors' code by jobs that have others to serve: no thread can be ended, so they leave one that hangs.

T = TypeVar("T")


class TimeLimit:
    """Calls functions in threads of their own and waits ``seconds`` for each. For any thread.

    A call that has not returned by then continues to run; until it ends, no further one with its key begins.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._late: dict[tuple[str, str], threading.Thread] = {}
        """What did not return in time, by the group and the key of its call."""

    def call(self, group: str, key: str, function: Callable[[], T]) -> T:
        """Return what the function does. ``TimeoutError``, which says where it is, if that takes too long.

        While another call of its group has not returned it waits a tenth: many that hang would add up.
        """
        done: Future[T] = Future()
        context = contextvars.copy_context()
        for of, one in self._late.copy().items():
            if not one.is_alive():
                self._late.pop(of, None)
        if (before := self._late.get((group, key))) is not None:
            raise self._overdue(before, self.seconds)
        patience = self.seconds / 10 if any(of == group for of, _ in self._late.copy()) else self.seconds
        thread = threading.Thread(target=context.run, args=(self._run, function, done), daemon=True)
        thread.start()
        try:
            return done.result(patience)
        except TimeoutError:
            # The function's own error, or the end of our patience.
            if done.done():
                return done.result()
            self._late[group, key] = thread
            raise self._overdue(thread, patience) from None

    def _run(self, function: Callable[[], Any], done: Future[Any]) -> None:
        result: Any = None
        error: Exception | None = None
        try:
            result = function()
        except Exception as raised:
            error = raised
        except BaseException as raised:
            # Such as sys.exit(): it ends this call, not the process that waits for it.
            error = RuntimeError(f"The workflow's code ended with {type(raised).__name__}: {message_of(raised)}")
        try:
            connections.close_all()
        finally:
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def _overdue(self, thread: threading.Thread, seconds: float) -> TimeoutError:
        frame = sys._current_frames().get(thread.ident or 0)
        found = traceback.extract_stack(frame)[-1:] if frame is not None else []
        where = "".join(f" It is in {one.name} ({one.filename}:{one.lineno})." for one in found)
        return TimeoutError(f"The workflow's code did not return within {seconds:g} s.{where}")


log = logging.getLogger(__name__)

ASKING = ("wfdash.workflow.asking", "wfdash.actions.hooks")
SHIPPED = frozenset({*ASKING, "wfdash.examples"})
"""The sources that come with wfdash: none of them is an author's own."""


@frozen
class Entry:
    """A workflow that can be started."""

    name: str
    definition: object
    engine: Engine
    description: Description
    source: str
    code: tuple[SourceFile, ...] = ()
    """The files with its steps, as they were when it was loaded."""
    published: bool = False
    """Whether this process has not loaded it, and knows it by what a worker has published of it."""

    @cached_property
    def step_titles(self) -> dict[str, str]:
        """Return step -> the title that its author or its engine gives it."""
        return {step.name: step.title for step in self.description.steps if step.title}

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Return the names of the workflow's secret fields, by the types of its input and output."""
        described = self.description
        schemas = (described.input_schema, described.output_schema, described.follow_up_schema)
        declared = (secret_names(schema) for schema in schemas)
        more = self.engine.secret_names(self.definition) if isinstance(self.engine, NamesSecrets) else ()
        return frozenset[str]().union(*declared, more)

    @cached_property
    def addressees(self) -> tuple[Addressees, ...] | None:
        """Return whom its steps ask, as far as the code says; None where that is not known."""
        return tuple(self.engine.addressees(self.definition)) if isinstance(self.engine, NamesPeople) else None


@frozen
class Failure:
    """A module or definition that could not be loaded."""

    source: str
    error: str
    traceback: str
    where: str = ""
    """The file and line at which it failed, empty where no line did."""
    flaws: Pairs = ()
    """Each problem of an invalid workflow, with file and line."""
    kept: tuple[str, ...] = ()
    """The workflows whose last good version is served all the same."""
    raised: Exception | None = field(default=None, compare=False, repr=False)
    """The exception, from the author's first line on."""


@dataclass
class Catalog:
    """Everything that was found, in order of discovery."""

    entries: dict[str, Entry] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    engines: tuple[Engine, ...] = ()
    secrets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Workflow -> the names of its secret fields as workers have published them, also where it is not served."""


@frozen
class Reload:
    """What reading the files again has changed, one sentence each. ``number``: how many times they were read."""

    number: int = 0
    words: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


latest = Reload()
"""The latest reload; number 0 before the first."""


def entries() -> list[Entry]:
    """Return every workflow, by title."""
    return sorted(load().entries.values(), key=lambda entry: entry.description.title.lower())


def failures() -> list[Failure]:
    """Return what failed to load."""
    return list(load().failures)


def get(name: str) -> Entry:
    """Return a workflow by name. ``NotFound``."""
    try:
        return load().entries[name]
    except KeyError:
        close = get_close_matches(name, load().entries, 1)
        meant = f". Did you mean {close[0]!r}?" if close else ". See Workflows for what is loaded"
        raise NotFound(f"No workflow named {name!r}{meant}") from None


def secrets_of(workflow: str) -> frozenset[str]:
    """Return the names of a workflow's secret fields, as far as it is loaded or was published."""
    entry = find(workflow)
    return entry.secrets if entry else load().secrets.get(workflow, frozenset())


def all_secrets() -> frozenset[str]:
    """Return the names of the secret fields of every workflow."""
    return frozenset[str]().union(*(entry.secrets for entry in entries()), *load().secrets.values())


def queue_of(workflow: str) -> str:
    """Return the queue of a workflow; the default one where it is not loaded."""
    entry = find(workflow)
    return entry.description.queue if entry else DEFAULT_QUEUE


def limit_of(workflow: str) -> int | None:
    """Return how many runs of a workflow may execute at once; None: any number, or it is not loaded."""
    entry = find(workflow)
    return entry.description.limit if entry else None


def step_title(workflow: str, step: str) -> str:
    """Return the title of a step, empty where the workflow is not loaded or gives it none."""
    entry = find(workflow) if workflow else None
    return entry.step_titles.get(step, "") if entry else ""


def title_of(workflow: str) -> str:
    """Return the title of a workflow; its name where it has none or is not loaded."""
    entry = find(workflow)
    return (entry and entry.description.title) or workflow


def titles() -> dict[str, str]:
    """Return workflow name -> title of what is loaded."""
    return {entry.name: entry.description.title or entry.name for entry in entries()}


def find(name: str) -> Entry | None:
    """Return a workflow by name, None if it is not loaded."""
    return load().entries.get(name)


def use_published(found: Iterable[Published], secrets: Mapping[str, frozenset[str]], consult: Consult) -> None:
    """Serve these workflows, too, as workers describe them, in place of those that were used so far, and mask these
    ``secrets`` of workflows, of those that are not served as well. What needs their code is asked by ``consult``.

    What this process has loaded itself comes first. For processes that execute no run.
    """
    served = load()
    own = {name: entry for name, entry in served.entries.items() if not entry.published}
    theirs = {one.description.workflow: _published(one, one.description, consult) for one in found if one.description}
    served.secrets, served.entries = secrets, theirs | own


def _published(one: Published, described: Description, consult: Consult) -> Entry:
    engine, name = published_engine(one, described, consult), described.workflow
    source = "published by workers"
    return Entry(name=name, definition=None, engine=engine, description=described, source=source, published=True)


def find_engine(name: str) -> Engine | None:
    """Return an engine by name, None if it is not loaded. Its checkpoints may be of a workflow that is not loaded."""
    found = load()
    loaded = (entry.engine for entry in found.entries.values() if not entry.published)
    return next((one for one in (*found.engines, *loaded) if one.name == name), None)


def takes_edits(name: str) -> bool:
    """Return whether checkpoints of a workflow can be edited, as far as is known: of one that is not loaded, maybe."""
    entry = find(name)
    return entry is None or isinstance(entry.engine, TakesEdits)


@lru_cache(maxsize=1)
def load() -> Catalog:
    """Return the catalogue, imported once per process; ``load.cache_clear()`` resets it. Failures are logged."""
    found = read()
    for failure in found.failures:
        log.error("Could not load workflows from %s: %s", failure.source, failure.error, exc_info=failure.raised)
    return found


def reload() -> Reload:
    """Import what authors wrote again. A source that fails keeps serving what it had; runs in progress are not touched.

    Steps in progress end with the code they began with. For development: modules that were replaced stay in memory.
    """
    global latest
    served, replaced = load(), author_modules(roots(), but=settings.INSTALLED_APPS)
    before = dict(served.entries)
    forget(replaced)
    fresh = read()
    sys.modules.update({name: module for name, module in replaced.items() if name not in sys.modules})
    failures = [_keep(failure, before, fresh.entries) for failure in fresh.failures]
    fresh.entries = {name: entry for name, entry in before.items() if entry.published} | fresh.entries
    served.entries, served.failures, served.engines = fresh.entries, failures, fresh.engines
    words = tuple(_difference(before, served.entries))
    latest = Reload(number=latest.number + 1, words=words, failures=tuple(failures))
    return latest


def roots() -> list[Path]:
    """Return the folders in which the sources, and what they import, are."""
    apps = [name for name in settings.WFDASH_APPS if name not in settings.INSTALLED_APPS]
    return [root for source in [*apps, *settings.WFDASH_WORKFLOWS] if (root := root_of(source)) is not None]


def _keep(failure: Failure, before: dict[str, Entry], fresh: dict[str, Entry]) -> Failure:
    """Keep what a source had before it failed."""
    had = {name: entry for name, entry in before.items() if entry.source == failure.source and name not in fresh}
    fresh |= had
    return replace(failure, kept=tuple(had))


def _difference(before: dict[str, Entry], after: dict[str, Entry]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield f"{name} was {'added' if old is None else 'removed'}"
        elif old.description.version != new.description.version:
            yield f"{name}: {'; '.join(graph_diff.compare(old.description, new.description).words) or 'new version'}"
        elif old is not new and [file.text for file in old.code] != [file.text for file in new.code]:
            yield f"{name}: new code, same graph"


def read(given: Sequence[str] | None = None) -> Catalog:
    """Import these sources, or all that the settings name, into a catalogue of its own."""
    catalog = Catalog()
    workflow_sources.use_folder(Path.cwd(), last=True)
    engines, missing = load_engines(settings.WFDASH_ENGINES)
    catalog.engines = tuple(engines)
    for engine in missing:
        catalog.failures.append(Failure(source=engine.path, error=engine.error, traceback=engine.traceback))
    files = [
        (file, workflow_sources.import_source)
        for source in (settings.WFDASH_WORKFLOWS if given is None else given)
        for file in workflow_sources.expanded(source)
    ]
    apps = [*settings.WFDASH_APPS, *(ASKING if settings.WFDASH_ASK_PEOPLE else ())] if given is None else []
    for source, load_modules in [*((app, _import_app) for app in apps), *files]:
        try:
            found = [one for module in load_modules(source) for one in definitions_in(module, engines)]
        except Exception as error:
            _note_failure(catalog, source, error)
            continue
        for one in found:
            if one.error is not None:
                _note_failure(catalog, source, one.error)
            elif one.engine is not None:
                _add_entry(catalog, source, one.definition, one.engine)
    return catalog


def _import_app(name: str) -> list[ModuleType]:
    """Return the ``workflows`` module of an app or package; none if it has none."""
    package = importlib.import_module(name)
    within = f"{name}.workflows"
    return [importlib.import_module(within)] if importlib.util.find_spec(within, package.__name__) else []


def _add_entry(catalog: Catalog, source: str, definition: object, engine: Engine) -> None:
    try:
        description = engine.describe(definition)
    except Exception as error:
        flaws = engine.flaws(definition, error) if isinstance(engine, LocatesFlaws) else ()
        _note_failure(catalog, source, error, flaws)
        return
    name = str(description.workflow)
    # What the author wrote: the nodes of an agent are mostly a library's.
    places = engine.code_places(definition) if isinstance(engine, LocatesCode) else ()
    entry = Entry(
        name=name,
        definition=definition,
        engine=engine,
        description=description,
        source=source,
        code=load_sources(place for place in places if is_code_of(place[1], source)),
    )
    held = catalog.entries.setdefault(name, entry)
    if held is entry:
        return
    if target_of(held.definition) is not target_of(definition):
        how = "serve(..., name=...)" if isinstance(engine, Adopts) else "Workflow(NAME)"
        words = f"Workflow name {name!r} is already used by {held.source}. Give one of the two another name: {how}"
        _note_failure(catalog, source, ValueError(words))
    elif Path(location(entry)) in (file.path.resolve() for file in entry.code):
        # Others only import what this file defines.
        catalog.entries[name] = entry


def _note_failure(catalog: Catalog, source: str, error: Exception, flaws: Pairs = ()) -> None:
    error = error.with_traceback(own_traceback(error))
    trace = "".join(traceback.format_exception(error))
    message = ". ".join(filter(None, (f"{type(error).__name__}: {error}", remedy_for(error))))
    where = _where(error) or next((place for _, place in flaws), "")
    failure = Failure(source=source, error=message, traceback=trace, where=where, flaws=flaws, raised=error)
    catalog.failures.append(failure)


def _where(error: Exception) -> str:
    """Return the author's line that failed: the last one outside Python, this package and installed packages."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    mine = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
    return f"{mine[-1].filename}:{mine[-1].lineno}" if mine else ""


def location(entry: Entry) -> str:
    """Return the file that defines a workflow, the source itself if it has none."""
    if entry.source.endswith(".py"):
        return str(Path(entry.source).resolve())
    module = sys.modules.get(f"{entry.source}.workflows") or sys.modules.get(entry.source)
    return getattr(module, "__file__", None) or entry.source


GROUP = "wfdash.engines"
"""The entry points of packages with engines."""
METHODS = ("accepts", "describe", "check_input", "drive")


@frozen
class Missing:
    """An engine that could not be loaded: its path, the error as a sentence, and the traceback."""

    path: str
    error: str
    traceback: str


def load_engines(paths: Sequence[str]) -> tuple[list[Engine], list[Missing]]:
    """Return the engines of these dotted paths and of installed packages, each once, in this order."""
    engines: list[Engine] = []
    missing: list[Missing] = []
    for path in dict.fromkeys([*paths, *offered()]):
        try:
            engines.append(_load(path))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            missing.append(Missing(path=path, error=_words(path, error), traceback=trace))
    return engines, missing


@cache
def offered() -> tuple[str, ...]:
    """Return the paths of the engines that installed packages offer, looked up once per process.

    Metadata of all packages are read for it, which takes longer than everything else that a reload does.
    """
    return tuple(sorted(point.value.replace(":", ".") for point in entry_points(group=GROUP)))


def _load(path: str) -> Engine:
    module, _, name = path.strip().rpartition(".")
    if not module:
        raise ValueError("an engine is named with its module, as in package.module.Engine")
    try:
        kind = getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ImportError(f"module {module!r} has no {name!r}") from None
    engine: Engine = kind()
    if lacks := [method for method in METHODS if not callable(getattr(engine, method, None))]:
        raise TypeError(f"it has no method {lacks[0]}")
    if not isinstance(getattr(engine, "name", None), str):
        raise TypeError("it has no name")
    return engine


def _words(path: str, error: Exception) -> str:
    cause = str(error) or type(error).__name__
    lacking = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    remedy = f": install the package with {lacking!r}, or take it out of WFDASH_ENGINES" if lacking else ""
    return f"The engine {path} cannot be used: {cause}{remedy}"

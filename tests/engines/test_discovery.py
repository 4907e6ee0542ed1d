"""Which engines are loaded, by name and from packages, and what they find in modules."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from wfdash.contract import Description
from wfdash.engines import catalog
from wfdash.engines.catalog import definitions_in, load_engines
from wfdash.engines.native import NativeEngine
from wfdash.engines.serving import Served, serve
from wfdash.workflow import Policy, Workflow


class Graph:
    """An object of another library: it has no name."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


class GraphEngine:
    """Takes graphs."""

    name = "graphs"

    def accepts(self, definition: object) -> bool:
        return isinstance(definition, Graph)

    def parts(self, served: Served) -> tuple[object, ...]:
        return tuple(served.make().parts)

    def describe(self, definition: object) -> Description:
        raise NotImplementedError

    check_input = drive = describe


def found_in(**values: object) -> list[tuple[str, object, object]]:
    module = ModuleType("somewhere")
    vars(module).update(values)
    found = definitions_in(module, [NativeEngine(), GraphEngine()])
    return [(one.variable, one.definition, str(one.error or "")) for one in found]


def names_in(**values: object) -> list[str]:
    return [one.given_name for _, one, _ in found_in(**values) if isinstance(one, Served)]


def test_an_object_without_a_name_is_served_under_its_variable():
    assert names_in(refund=Graph(), payout=Graph(), other=3) == ["refund", "payout"]


def test_one_object_under_two_names_is_served_once():
    graph = Graph()
    assert names_in(first=graph, second=graph) == ["first"]


def test_a_builder_beside_its_graph_is_served_once():
    builder = Graph()
    assert names_in(builder=builder, app=Graph(builder)) == ["app"]


def test_a_native_workflow_is_its_own_definition():
    wf = Workflow("native")
    assert found_in(wf=wf) == [("wf", wf, "")]


def test_serve_names_its_object_once_and_leaves_other_engines_alone():
    graph, wf = Graph(), Workflow("native")
    served = serve(graph, title="Refunds", by="finance")
    assert [name for name, _, _ in found_in(graph=graph, helper=Graph(), refunds=served, wf=wf)] == ["refunds", "wf"]
    ((_, found, _),) = found_in(graph=graph, refunds=served)
    assert isinstance(found, Served)
    assert (found.given_name, found.title, found.policy) == ("refunds", "Refunds", Policy(by="finance"))


def test_a_given_name_wins_over_the_variable():
    assert names_in(g=serve(Graph(), name="refunds")) == ["refunds"]


def test_a_function_makes_a_new_object_for_each_use():
    ((_, found, _),) = found_in(refunds=serve(lambda: Graph()))
    assert isinstance(found, Served)
    assert isinstance(found.make(), Graph)
    assert found.make() is not found.make()


def broken() -> Graph:
    raise RuntimeError("no connection")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (3, "serve(x): no engine takes this object (int)"),
        (lambda: 3, "no engine takes what <lambda>() returns"),
        (broken, "no connection"),
    ],
)
def test_what_cannot_be_served_says_why_and_harms_nothing_else(target: object, words: str):
    found = found_in(x=serve(target), good=Graph())
    assert [(name, words in error) for name, _, error in found] == [("x", True), ("good", False)]


def test_options_for_a_native_workflow_are_refused():
    ((_, _, error),) = found_in(wf=serve(Workflow("native"), title="Other"))
    assert "take serve() away" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "ana", "policy": Policy(by="ben")}, "not both"),
        ({"policies": {"pay": "finance"}}, r"policies\['pay'\] must be a Policy"),
        ({"name": 3}, "name must be text"),
        ({"queue": "two words"}, "queue 'two words'"),
        ({"limit": 0}, "limit 0"),
    ],
)
def test_serve_refuses_contradictions_and_wrong_kinds(options: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        serve(Graph(), **options)


def test_the_policy_of_a_tool_completes_that_of_everything_else():
    served = serve(Graph(), policy=Policy(by="support", due="4h"), policies={"pay_out": Policy(by="finance", need=2)})
    assert served.policy_of("pay_out", "tools") == Policy(by="finance", need=2, due="4h")
    assert served.policy_of("other", "tools") == Policy(by="support", due="4h")
    assert serve(Graph()).policy_of("any") is None


NATIVE = "wfdash.engines.native.NativeEngine"


class Broken:
    name = "broken"

    def __init__(self) -> None:
        raise RuntimeError("langgraph 0.9 is installed, 1.2.12 or newer is needed")


class Partial:
    name = "partial"

    def accepts(self, definition: object) -> bool:
        return False


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing_of_that_name.Engine", "install the package with 'nothing_of_that_name', or take it out"),
        (f"{__name__}.Broken", "1.2.12 or newer is needed"),
        (f"{__name__}.Absent", "has no 'Absent'"),
        (f"{__name__}.Partial", "it has no method describe"),
        ("Engine", "named with its module"),
        ("", "named with its module"),
    ],
)
def test_an_engine_that_cannot_be_loaded_is_named_and_the_others_are_used(path: str, words: str):
    engines, missing = load_engines([path, NATIVE])
    assert [engine.name for engine in engines] == ["native"]
    assert [(one.path, words in one.error) for one in missing] == [(path, True)]


def test_a_package_offers_its_engine_by_an_entry_point_and_it_is_used_once(monkeypatch):
    point = EntryPoint("native", "wfdash.engines.native:NativeEngine", catalog.GROUP)
    monkeypatch.setattr(catalog, "entry_points", lambda group: [point])
    monkeypatch.setattr(catalog, "offered", catalog.offered.__wrapped__)
    assert [engine.name for engine in load_engines([])[0]] == ["native"]
    assert [engine.name for engine in load_engines([NATIVE])[0]] == ["native"]


def test_the_catalogue_names_an_engine_that_is_missing_and_serves_the_rest(settings):
    settings.WFDASH_ENGINES = [NATIVE, "nothing_of_that_name.Engine"]
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = ["wfdash.examples"], []
    found = catalog.read()
    assert "patch_review" in found.entries
    assert [failure.source for failure in found.failures] == ["nothing_of_that_name.Engine"]

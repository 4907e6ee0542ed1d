"""Workflow graphs are drawn, whatever their shape."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.notifications.rendering import engine
from wfdash.web.pages.ui.drawing import Drawing, DrawnStep, place_boxes
from wfdash.web.pages.ui.graph import layout


def describe(names: list[str], edges: list[tuple[str, str]], parents: dict[str, str] | None = None) -> Description:
    steps = tuple(StepInfo(name=name, person=name == "review", parent=(parents or {}).get(name)) for name in names)
    arrows = tuple(EdgeInfo(source=a, target=b, label="ok" if a == b else "") for a, b in edges)
    return Description(workflow="w", title="W", engine="native", version="1", steps=steps, edges=arrows)


def box(node: DrawnStep) -> tuple[float, ...]:
    return (node.x, node.y, node.width - 0.1, node.height - 0.1)


def check(graph: Drawing) -> None:
    nodes = graph.nodes
    assert not any(touch(box(a), box(b)) for i, a in enumerate(nodes) for b in nodes[i + 1 :])
    assert all(n.x >= 0 and n.y >= 0 and n.x + n.width <= graph.width and n.y + n.height <= graph.height for n in nodes)


NAMES = [f"s{n}" for n in range(14)]


@settings(deadline=None)
@given(
    st.integers(1, 14),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=6),
)
def test_any_graph_is_drawn_without_overlaps(count: int, edges: list[tuple[str, str]], parents: dict[str, str]) -> None:
    graph = layout(describe(NAMES[:count], edges, parents))
    check(graph)
    drawn = {node.name for node in graph.nodes} | {group.name for group in graph.groups}
    assert drawn == set(NAMES[:count]) | {parents[name] for name in NAMES[:count] if name in parents}


@pytest.mark.parametrize(("steps", "sideways"), [(1, True), (5, True), (6, False), (11, False), (12, True)])
def test_few_and_many_steps_run_from_left_to_right_others_down_the_page(steps: int, sideways: bool) -> None:
    names = [f"s{n}" for n in range(steps)]
    edges = [EdgeInfo(source=a, target=b, label="when it is large") for a, b in itertools.pairwise(names)]
    graph = layout(describe(names, []).model_copy(update={"edges": tuple(edges)}))
    assert [node.name for node in graph.nodes] == names
    assert (graph.is_strip, len({node.y for node in graph.nodes}) == 1) == (sideways, sideways)
    for edge in graph.edges:
        label = (edge.back_x, edge.back_y, edge.label_width, 18.0)
        assert not any(touch(label, box(node)) for node in graph.nodes)


def touch(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def test_the_start_stays_on_top_of_a_loop() -> None:
    graph = layout(
        describe(["draft", "review", "publish"], [("draft", "review"), ("review", "draft"), ("review", "publish")])
    )
    assert [node.name for node in graph.nodes] == ["draft", "review", "publish"]
    assert len({edge.path for edge in graph.edges}) == 3


def test_a_step_that_follows_itself_has_a_loop() -> None:
    assert len(layout(describe(["a"], [("a", "a")])).edges) == 1


def test_an_edge_passes_beside_what_is_between_whatever_stands_alone() -> None:
    ways = place_boxes([(120.0, 42.0)] * 12, [(0, 1), (1, 2), (0, 2)], {})
    ((x, _),) = ways.bends[0, 2]
    assert abs(x - ways.boxes[1].x) > 60


def test_steps_of_a_sub_workflow_stand_in_its_frame() -> None:
    edges = [("start", "sub"), ("in", "out"), ("sub", "end")]
    graph = layout(describe(["start", "sub", "in", "out", "end"], edges, {"in": "sub", "out": "sub"}))
    (frame,) = graph.groups
    inside = [node for node in graph.nodes if node.name in {"in", "out"}]
    assert all(frame.x < n.x and frame.y < n.y and n.x + n.width < frame.x + frame.width for n in inside)
    assert {(e.source, e.target) for e in graph.edges} == set(edges)


def test_states_show_what_needs_attention_most() -> None:
    board = {"a": {"done": 3, "failed": 1}, "review": {"waiting": 1}, "c": {"done": 2, "running": 1}}
    graph = layout(describe(["a", "review", "c", "d"], [("a", "review"), ("review", "c"), ("c", "d")]), board)
    assert [node.state for node in graph.nodes] == ["failed", "waiting", "running", "idle"]
    assert [node.counts for node in graph.nodes] == ["3/4", "", "2/3", ""]
    assert graph.nodes[1].words == "Review (a person): waiting for a person"


@pytest.mark.parametrize("steps", [3, 9, 40, 200, 2000])
def test_a_graph_of_any_size_is_drawn_alike_each_time_in_a_moment(steps: int) -> None:
    names = [f"s{n}" for n in range(steps)]
    jumps = [(names[n], names[(n * 7 + 3) % steps]) for n in range(0, steps, 5)]
    edges = [(names[n // 2], names[n]) for n in range(1, steps)] + jumps
    begin = time.process_time()
    graph = layout(describe(names, edges))
    assert time.process_time() - begin < 3
    check(graph)
    assert layout(describe(names, edges)) == graph


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b", "c", "d", "e"]])
def test_graphs_without_edges_are_drawn(names: list[str]) -> None:
    check(layout(describe(names, [("a", "ghost")])))


def test_the_picture_is_told_in_words_and_its_text_is_escaped() -> None:
    steps = (StepInfo(name="a", title="<script>"), StepInfo(name="b c", title="Pay", person=True))
    edges = (EdgeInfo(source="a", target="b c", kind="when", label="<b>"),)
    made = Description(workflow="w", title="W", engine="n", version="1", steps=steps, edges=edges)
    html = engine().get_template("components/graph.html").render({"graph": layout(made, {"a": {"done": 1}})})
    assert "<script>" not in html
    assert "<b>" not in html
    assert 'href="#step-b%20c"' in html
    assert "2 steps: 1 done, 1 pending" in html
    assert "style=" not in html

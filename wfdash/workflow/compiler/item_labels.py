"""What the items of maps are called: one template per map, checked against the type of its items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.errors import PydanticUserError

from checkpoints.limits import problem_of
from wfdash.domain.run_titles import ITEM
from wfdash.domain.run_titles import problem_of as problem_of_template
from wfdash.values.codec import codec_for, is_any
from wfdash.values.type_names import item_type
from wfdash.workflow.compiler.graph import Edge, Node
from wfdash.workflow.compiler.plan import GraphPlan, PlannedEdge
from wfdash.workflow.compiler.validate import shown


def read_labels(plan: GraphPlan) -> dict[str, str]:
    """Return map -> the template that names its items. Problems are added to the plan.

    Several steps may be the first of one map: they share its items, and so their labels.
    """
    found: dict[str, str] = {}
    for link in plan.links:
        if link.opens is None or link.label == "":
            continue
        if problem := _text_problem(link.label):
            plan.problems.append(f"{_place(link)}: {problem}")
        elif found.setdefault(link.opens, link.label) != link.label:
            plan.problems.append(
                f"{_place(link)}: another step calls the same items {found[link.opens]!r}: give both one label"
            )
    return found


def _text_problem(label: Any) -> str | None:
    if not isinstance(label, str):
        return 'write a text with fields of the item, such as "{name}: {amount}"'
    return problem_of("item label", label)


def check_labels(nodes: Mapping[str, Node], edges: Iterable[Edge]) -> Iterator[str]:
    """Yield why labels cannot name the items they get."""
    for edge in edges:
        if edge.label and (problem := _template_problem(edge.label, nodes[edge.source], nodes[edge.target])):
            yield f"{_place(edge)}: {problem}"


def _template_problem(label: str, source: Node, target: Node) -> str:
    if not target.takes_message:
        return "the step takes no message, and so no item: give its function a parameter for it"
    kind = item_type(source.gives) if target.accepts is None else target.takes
    if is_any(kind):
        return problem_of_template(label, {}, ITEM)
    try:
        # Items are stored under the names of their fields, not under aliases.
        schema = codec_for(kind).adapter.json_schema(by_alias=False)
    except (PydanticUserError, ValueError, TypeError):
        return "the type of the items has no JSON Schema, so nothing is known of their fields: leave label= out"
    return problem_of_template(label, schema, ITEM)


def _place(edge: PlannedEdge | Edge) -> str:
    return f"step {shown(edge.target)}, label of each({shown(edge.source)})"

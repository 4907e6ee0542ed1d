"""Description of a workflow for people: steps, labelled edges, forms, and whom its questions address."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from pydantic import PydanticSchemaGenerationError, PydanticUserError, ValidationError

from checkpoints.ids import WorkflowId
from checkpoints.records import JsonObject
from wfdash.contract import Addressees, Description, EdgeInfo, StepInfo
from wfdash.domain.labels import humanize
from wfdash.questions.policy import Policy, addressees_of, policy_of
from wfdash.values.codec import codec_for, either, is_any, type_name
from wfdash.workflow.build import earlier_names
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.graph import Edge, Graph, Node
from wfdash.workflow.reducer.routing import follow_up_schema, input_schema
from wfdash.workflow.workflow import Workflow


def describe(workflow: Workflow) -> Description:
    """Return the workflow's description; ``InvalidWorkflow`` if it is not valid."""
    graph = workflow.graph
    aliases = earlier_names(graph)
    shown = [node for node in graph.nodes.values() if not node.hidden]
    return Description(
        workflow=WorkflowId(workflow.name),
        title=workflow.title,
        run_title=workflow.run_title,
        doc=inspect.cleandoc(workflow.doc),
        engine="native",
        version=graph.version,
        input_schema=input_schema(graph),
        output_schema=output_schema(graph),
        follow_up_schema=follow_up_schema(graph),
        examples=tuple(workflow.check_input(example) for example in workflow.examples),
        queue=workflow.queue,
        limit=workflow.limit,
        steps=tuple(_step(node, aliases.get(node.name, ())) for node in shown),
        edges=tuple(_arrows(graph)),
    )


def _step(node: Node, was: tuple[str, ...]) -> StepInfo:
    own = node.name.rsplit("/", 1)[-1]
    return StepInfo(
        name=node.name,
        title=node.title or humanize(own),
        doc=inspect.getdoc(node.function) or "",
        person=node.people or asks_people(node),
        parent=node.parent,
        takes=type_name(node.takes) if node.takes_message else "",
        gives=type_name(node.gives),
        was=was,
    )


def asks_people(node: Node) -> bool:
    """Return whether the step's function uses ``ask`` of its context parameter; False without its source."""
    code = getattr(inspect.unwrap(node.function), "__code__", None)
    return code is not None and bool(node.context) and _asks(code, node.context)


@lru_cache(maxsize=2_048)
def _asks(code: CodeType, context: str) -> bool:
    return any(used_of(context, part) == "ask" for part in ast.walk(parsed(code)))


def used_of(context: str, part: ast.AST) -> str:
    """Return what an expression names of the context parameter, such as ``ask``; empty for any other expression."""
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == context:
        return part.attr
    return ""


def parsed(source: CodeType | Callable[..., Any]) -> ast.AST:
    """Return the syntax tree of a function, an empty one without its source."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(source)).strip().rstrip(","))
    except (OSError, SyntaxError, TypeError):
        return ast.Module(body=[], type_ignores=[])


def _arrows(graph: Graph) -> list[EdgeInfo]:
    """Return the edges without hidden nodes: an edge into a sub-workflow ends at its start steps."""
    found: dict[tuple[str, str], EdgeInfo] = {}
    for edge in graph.edges:
        if edge.kind in {"enter", "exit"}:
            continue
        for source in _visible(graph, edge.source, back=True):
            for target in _visible(graph, edge.target, back=False):
                arrow = EdgeInfo(source=source, target=target, kind=kind_of(edge), label=label_of(graph, edge))
                found.setdefault((source, target), arrow)
    return list(found.values())


def _visible(graph: Graph, name: str, *, back: bool) -> list[str]:
    if not graph.nodes[name].hidden:
        return [name]
    inner = [edge for edge in graph.edges if (edge.target if back else edge.source) == name]
    return [found for edge in inner for found in _visible(graph, edge.source if back else edge.target, back=back)]


def kind_of(edge: Edge) -> str:
    """Return the edge's kind as in ``EdgeInfo``."""
    if edge.kind != "plain":
        return edge.kind
    if edge.switch is not None:
        return "case"
    if edge.otherwise:
        return "otherwise"
    return "when" if edge.when is not None else "plain"


def label_of(graph: Graph, edge: Edge) -> str:
    """Return the edge's label: the case, the predicate, how it joins."""
    if edge.switch is not None:
        return "otherwise" if edge.default else str(edge.case)
    if edge.otherwise:
        return "otherwise"
    rule = graph.nodes[edge.target].join
    if edge.kind == "join" and rule is not None:
        return {None: "all", 1: "any"}.get(rule.need, f"{rule.need} of {rule.places}")
    words = predicate_text(edge.when) if edge.when is not None else ""
    if edge.kind in {"each", "gather"}:
        return f"{edge.kind}: {words}" if words else edge.kind
    return words


def predicate_text(predicate: Callable[..., Any]) -> str:
    """Return a predicate as text: its name, or a lambda's own expression."""
    name = getattr(predicate, "__name__", "")
    if name != "<lambda>":
        return name.replace("_", " ")
    found = [node for node in ast.walk(parsed(predicate)) if isinstance(node, ast.Lambda)]
    text = ast.unparse(found[0].body) if len(found) == 1 else ""
    return text if len(text) <= 60 else ""


def output_schema(graph: Graph) -> JsonObject:
    """Return the JSON Schema of the run's output, empty if it is not known in advance."""
    kinds = [node.gives for node in graph.nodes.values() if node.ends]
    if not kinds or any(is_any(kind) for kind in kinds):
        return {}
    try:
        return codec_for(either(kinds)).schema("serialization")
    except (PydanticSchemaGenerationError, PydanticUserError):
        return {}


# -- whom its questions are addressed to, read from the source of its steps without running them

NAMING = ("by", "not_by")
UNKNOWN = object()
"""The value of an expression that only a running step has."""


def addressees(graph: Graph) -> list[Addressees]:
    """Return whom each step asks, once for each different way, in the order of the steps.

    A name is known where it is written as text, or as a constant of its module. Where it is not, what the workflow's
    policy says is given, and ``certain`` is False.
    """
    asking = (node for node in graph.nodes.values() if not node.hidden and (node.people or asks_people(node)))
    return [one for node in asking for one in dict.fromkeys(_of(node))]


def _of(node: Node) -> Iterator[Addressees]:
    function = inspect.unwrap(node.function)
    code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    calls = _calls(code, node.context) if code is not None and node.context else ()
    for call in calls:
        yield _addressed(node, call, known)
    if not calls:
        yield addressees_of(node.name, node.policy or Policy(), certain=False)


@lru_cache(maxsize=2_048)
def _calls(code: CodeType, context: str) -> tuple[ast.Call, ...]:
    """Return the calls of the context's ``ask``."""
    found = (part for part in ast.walk(parsed(code)) if isinstance(part, ast.Call))
    return tuple(call for call in found if used_of(context, call.func) == "ask")


def _addressed(node: Node, call: ast.Call, known: Mapping[str, Any]) -> Addressees:
    given = {word.arg: word.value for word in call.keywords if word.arg}
    values = {name: _names(given[name], known) for name in NAMING if name in given}
    said = _policy(given["policy"], known) if "policy" in given else None
    certain = said is not UNKNOWN and UNKNOWN not in values.values() and len(given) == len(call.keywords)
    policy = said if isinstance(said, Policy) else None
    try:
        stated = policy_of(policy, {name: value for name, value in values.items() if value is not UNKNOWN})
    except InvalidCall:
        stated, certain = Policy(), False
    return addressees_of(node.name, stated.over(node.policy), certain=certain)


def _names(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the names an expression means, ``UNKNOWN`` if that cannot be read from the source."""
    value = _value(expression, known)
    if isinstance(value, str):
        return (value,)
    texts = isinstance(value, (tuple, list)) and all(isinstance(one, str) for one in value)
    return tuple(value) if texts else UNKNOWN


def _policy(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return the policy an expression makes or names, as far as it names people; else ``UNKNOWN``."""
    found = _value(expression, known)
    if isinstance(found, Policy) or found is None:
        return found
    if not isinstance(expression, ast.Call) or _value(expression.func, known) is not Policy:
        return UNKNOWN
    given = {word.arg: _value(word.value, known) for word in expression.keywords if word.arg}
    if UNKNOWN in given.values():
        return UNKNOWN
    try:
        return Policy(**given)
    except ValidationError:
        return UNKNOWN


def _value(expression: ast.expr, known: Mapping[str, Any]) -> Any:
    if isinstance(expression, ast.Name):
        return known.get(expression.id, UNKNOWN)
    if isinstance(expression, (ast.Tuple, ast.List)):
        return tuple(_value(one, known) for one in expression.elts)
    try:
        return ast.literal_eval(expression)
    except ValueError:
        return UNKNOWN

"""Where in the code the problems of an invalid workflow are, and mistakes that the source of valid steps shows."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import CodeType
from typing import Any, Literal, get_origin

from checkpoints.records import Pairs
from wfdash.questions.card import Card
from wfdash.questions.cards import Approval
from wfdash.questions.choices import Choice
from wfdash.questions.tools import ToolCall
from wfdash.workflow.describe import kind_of, parsed, used_of
from wfdash.workflow.graph import Graph, Node
from wfdash.workflow.workflow import Workflow


def flaws_of(workflow: Workflow, error: Exception) -> Pairs:
    """Return each problem with ``file:line`` of its step, or of the workflow where it names none."""
    problems = getattr(error, "facts", {}).get("problems") or [str(error)]
    return tuple((str(problem), _place(workflow, str(problem))) for problem in problems)


def _place(workflow: Workflow, problem: str) -> str:
    named = re.match(r"step '([^']+)'", problem)
    *outer, name = named[1].split("/") if named else [""]
    owner: Any = workflow
    for part in outer:
        owner = owner.subs[part].child if part in owner.subs else owner
    step = owner.steps.get(name)
    code = getattr(inspect.unwrap(step.function), "__code__", None) if step is not None else None
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else owner.place
    return f"{file}:{line}"


# -- code that asks whether an answer is true, and forgotten awaits: a rejection is not false, nor is "no"; a question
# that is not awaited is not asked

APPROVED = "say .approved"
NO_IS_TRUE = "'no' is true, too: ask with answer=bool, or compare the text"


@dataclass(frozen=True)
class _Meaning:
    """What an expression is: a card (its class, and its call in the source), or an answer.

    ``name`` of the answer's type, and the ``remedy`` if its truth says nothing. ``values``: its ``.value`` is what was
    approved, which may be false.
    """

    card: type[Card] | None = None
    call: ast.Call | None = None
    name: str = ""
    remedy: str = ""
    values: bool = False


def truth_flaws(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each test of the truth of an answer to ``ctx.ask`` where that is no decision, with its ``file:line``."""
    seen = set[CodeType]()
    for node, code in _sources(graph):
        if code in seen:
            continue
        seen.add(code)
        reader = _TruthReader(node.context, getattr(inspect.unwrap(node.function), "__globals__", {}))
        reader.visit(parsed(code))
        for line, words in sorted(reader.found.items()):
            yield f"step {node.name!r} {words}", _line_of(code, line)


AWAITED = frozenset({"ask", "call", "checkpoint", "receive", "sleep"})
"""The operations of a context that have to be awaited."""
HANDED_ON = (
    *(ast.Await, ast.keyword, ast.Lambda, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Yield),
    *(ast.comprehension, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""What holds a coroutine that is awaited, or may be."""


def await_flaws(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield each operation of a step that is not awaited, or is in a function that cannot, with its ``file:line``."""
    for node, code in _sources(graph):
        tree = parsed(code)
        above = {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}
        calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call))
        for call in (one for one in calls if used_of(node.context, one.func) in AWAITED):
            name, place = used_of(node.context, call.func), _line_of(code, call.lineno)
            if not node.is_async:
                yield f"step {node.name!r} is a plain function: make it 'async def' to {name}", place
            elif not _is_handed_on(call, tree, above):
                yield f"step {node.name!r} does not await ctx.{name}(...): write 'await ctx.{name}(...)'", place


# -- loops without an end, and messages without a type

CANNOT_WAIT = r"\.(?:call|checkpoint|emit|progress|state|title)\b"
"""What a step does with its context and waits for no one."""


def loop_flaws(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """Yield a loop that nothing leaves and in which no one is waited for, with the ``file:line`` of a step.

    Whatever may lead out is taken to do so: a condition, a value of another type, a context that is handed on.
    """
    nodes, after = workflow.graph.nodes, dict[str, set[str]]()
    # One mention of a context is the parameter itself.
    going = {
        node.name
        for node, code in _sources(workflow.graph)
        if len(re.findall(rf"\b{node.context}\b(?!{CANNOT_WAIT})", ast.unparse(parsed(code)))) == 1
    }
    for name in (name for name, node in nodes.items() if name in going or not node.context):
        made = set(nodes[name].produces or [None])
        plain = {edge.target for edge in nodes[name].out if kind_of(edge) == "plain"}
        after[name] = {one for one in plain if made <= set(nodes[one].accepts or made)}
    while left := [name for name, targets in after.items() if not targets & after.keys()]:
        for name in left:
            del after[name]
    if names := [name for name in nodes if name in after and nodes[name].looped]:
        words = f"step {names[0]!r} is in a loop that never ends ({', '.join(names)}): "
        words += "give an edge of it a when=, or let a step return another type to end with"
        yield words, _place(workflow, words)


def type_notes(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """Yield each step whose message has no annotation, with its ``file:line``."""
    for node in workflow.graph.nodes.values():
        if node.message and node.message not in getattr(inspect.unwrap(node.function), "__annotations__", {}):
            words = f"step {node.name!r} does not say what {node.message!r} is, so it takes any JSON"
            yield f"{words}: annotate it, as in '{node.message}: Refund'", _place(workflow, words)


def _sources(graph: Graph) -> Iterator[tuple[Node, CodeType]]:
    """Yield the steps that have a context, with their code."""
    for node in graph.nodes.values():
        code = getattr(inspect.unwrap(node.function), "__code__", None)
        if code is not None and node.context:
            yield node, code


def _line_of(code: CodeType, line: int) -> str:
    return f"{code.co_filename}:{code.co_firstlineno + line - 1}"


def _is_handed_on(
    made: ast.expr, tree: ast.AST, above: Mapping[ast.AST, ast.AST], followed: frozenset[str] = frozenset()
) -> bool:
    """Return whether a coroutine is awaited, or goes where it may be: to another function, into a list, to a caller.

    ``followed``: names that lead here; a name may be assigned to itself.
    """
    outer = above.get(made)
    if isinstance(outer, (ast.IfExp, ast.NamedExpr, ast.Starred)) and made is not getattr(outer, "test", None):
        return _is_handed_on(outer, tree, above, followed)
    if isinstance(outer, (ast.Assign, ast.AnnAssign)):
        targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
        if not all(isinstance(one, ast.Name) for one in targets):
            return True
        names = {one.id for one in targets if isinstance(one, ast.Name)} - followed
        uses = (one for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id in names)
        return any(isinstance(one.ctx, ast.Load) and _is_handed_on(one, tree, above, followed | names) for one in uses)
    if isinstance(outer, ast.Call):
        return made is not outer.func
    if isinstance(outer, ast.Return):
        # A step that returns a coroutine returns nothing that can be stored; a helper inside of it may.
        within = above[outer]
        while not isinstance(within, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
            within = above[within]
        return not isinstance(above.get(within), ast.Module)
    return isinstance(outer, HANDED_ON)


class _TruthReader(ast.NodeVisitor):
    """Reads a function from top to bottom. What a name means is what was assigned to it last, above."""

    def __init__(self, context: str, known: Mapping[str, Any]) -> None:
        self.found: dict[int, str] = {}
        """Line of the function's source -> what is wrong."""
        self._context, self._known = context, known
        self._names: dict[str, _Meaning | None] = {}

    # -- what is tested

    def visit_If(self, node: ast.If | ast.IfExp | ast.Assert) -> None:
        self.visit(node.test)
        self._test(node.test)
        self.generic_visit(node)

    visit_IfExp: Any = visit_If
    visit_Assert: Any = visit_If

    def visit_While(self, node: ast.While) -> None:
        self.generic_visit(node)
        # It is tested again, with what its body assigned.
        self.visit(node.test)
        self._test(node.test)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            self._test(node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.generic_visit(node)
        for part in node.values[:-1]:
            # ``text or "none"`` gives a default for an empty text.
            self._test(part, text=isinstance(node.op, ast.And))

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.generic_visit(node)
        for test in node.ifs:
            self._test(test)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._test(node.guard)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        named = node.func.id if isinstance(node.func, ast.Name) else ""
        if named == "bool" and node.args:
            self._test(node.args[0])
        if named in {"all", "any"} and node.args:
            for part in _members(node.args[0]):
                self._test(part)

    def _test(self, tested: ast.expr, *, text: bool = True) -> None:
        inner = tested.values if isinstance(tested, ast.BoolOp) else ()
        for part in (tested.body, tested.orelse) if isinstance(tested, ast.IfExp) else inner:
            self._test(part, text=text)
        if words := self._flaw(tested, text=text):
            self.found.setdefault(tested.lineno, words)

    def _flaw(self, tested: ast.expr, *, text: bool) -> str:
        if isinstance(tested, ast.Attribute) and tested.attr == "value":
            of = self._meaning(tested.value)
            values = of is not None and of.values
            return "tests whether .value is true, which 0 or an empty text is not: " + APPROVED if values else ""
        answer = self._meaning(tested)
        if answer is None or not answer.remedy or (not text and answer.remedy == NO_IS_TRUE):
            return ""
        return f"tests whether {answer.name} is true: {answer.remedy}"

    # -- what names mean

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        self._bind(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._names[node.id] = None

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = self._meaning(value) if value is not None else None
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = _gathered(value, len(target.elts))
            for one, part in zip(target.elts, parts, strict=True):
                self._bind(one, part)

    def _meaning(self, of: ast.expr) -> _Meaning | None:
        if isinstance(of, ast.Await):
            return self._meaning(of.value)
        if isinstance(of, ast.NamedExpr):
            return self._meaning(of.value)
        if isinstance(of, ast.Name) and of.id in self._names:
            return self._names[of.id]
        if isinstance(of, ast.Call):
            if used_of(self._context, of.func) == "ask":
                return self._answer(of)
            kind = self._resolved(of.func)
            return _Meaning(card=kind, call=of) if isinstance(kind, type) and issubclass(kind, Card) else None
        value = self._resolved(of)
        return _Meaning(card=type(value)) if isinstance(value, Card) else None

    def _answer(self, call: ast.Call) -> _Meaning | None:
        card, wanted = _argument(call, "card", 0), _argument(call, "answer", 1)
        if card is None or any(isinstance(one, ast.Starred) for one in call.args):
            return None
        if wanted is not None and not (isinstance(wanted, ast.Constant) and wanted.value is None):
            return _answer_of(self._resolved(wanted))
        if isinstance(card, (ast.Constant, ast.JoinedStr)):
            return _answer_of(str)
        found = self._meaning(card)
        kind = found.card if found is not None else None
        if found is None or kind is None:
            return None
        if issubclass(kind, Approval):
            return _Meaning(name="a Decision", remedy=APPROVED, values=not self._edits_models(found.call))
        if issubclass(kind, ToolCall):
            return _Meaning(name="a ToolDecision", remedy=APPROVED)
        if issubclass(kind, Choice):
            one = found.call is not None and not {"multiple", None} & {word.arg for word in found.call.keywords}
            return _Meaning(name="the name of an option", remedy="compare it with one") if one else None
        return _answer_of(str)

    def _edits_models(self, card: ast.Call | None) -> bool:
        edit = _argument(card, "edit") if card is not None else None
        return edit is not None and _is_always_true(self._resolved(edit))

    def _resolved(self, of: ast.expr) -> Any:
        """Return the value of a name of the module, or of an attribute of such; None for anything else."""
        if isinstance(of, ast.Name):
            return self._known.get(of.id, getattr(builtins, of.id, None))
        if isinstance(of, ast.Attribute):
            return getattr(self._resolved(of.value), of.attr, None)
        if isinstance(of, ast.Subscript) and self._resolved(of.value) is Literal:
            parts = of.slice.elts if isinstance(of.slice, ast.Tuple) else [of.slice]
            values = tuple(one.value for one in parts if isinstance(one, ast.Constant))
            return Literal[values]
        return None


def _answer_of(kind: Any) -> _Meaning | None:
    if kind is str:
        return _Meaning(name="a text", remedy=NO_IS_TRUE)
    if get_origin(kind) is Literal:
        return _Meaning(name="one of several values", remedy="compare it") if all(kind.__args__) else None
    named = getattr(kind, "__name__", "")
    return _Meaning(name=f"a {named}", remedy="it always is; test a part of it") if _is_always_true(kind) else None


def _is_always_true(kind: Any) -> bool:
    """Return whether no value of a type is false."""
    if not isinstance(kind, type) or kind is object:
        return False
    if issubclass(kind, Enum):
        return all(map(bool, kind))
    return not hasattr(kind, "__bool__") and not hasattr(kind, "__len__")


def _argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    named = next((word.value for word in call.keywords if word.arg == name), None)
    given = call.args[place : place + 1] if place is not None else []
    return named if named is not None else next(iter(given), None)


def _members(of: ast.expr) -> Sequence[ast.expr]:
    """Return what ``all`` and ``any`` test of an expression."""
    if isinstance(of, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
        return [of.elt]
    if isinstance(of, (ast.List, ast.Tuple, ast.Set)):
        return of.elts
    return [one for one in _gathered(of, 0) if one is not None]


def _gathered(value: ast.expr | None, count: int) -> Sequence[ast.expr | None]:
    """Return the parts of a tuple, or of ``await asyncio.gather(...)``; ``count`` unknown ones of anything else."""
    given: Sequence[ast.expr] = ()
    if isinstance(value, (ast.Tuple, ast.List)):
        given = value.elts
    elif isinstance(value, ast.Await) and isinstance(value.value, ast.Call):
        function = value.value.func
        gathers = isinstance(function, ast.Attribute) and function.attr == "gather"
        given = value.value.args if gathers else ()
    fits = not any(isinstance(one, ast.Starred) for one in given) and count in (0, len(given))
    return given if fits else [None] * count

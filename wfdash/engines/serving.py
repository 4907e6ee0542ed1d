"""``serve``: what an object of another library does not say of itself, for the engine that executes it. Pure.

A graph of LangGraph or a workflow of Agent Framework is served as it is, under its own name or its variable's. Whom its
questions are addressed to, its title, or what it is called with has no place in it: that is said here.

```python
from wfdash.engines import serve

refunds = serve(graph, title="Refunds", policies={"pay_out": Policy(by="finance", need=2)})
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from wfdash.contract.placement import DEFAULT_QUEUE, problem_of_limit, problem_of_queue
from wfdash.questions.policy import Policy


@dataclass(frozen=True, kw_only=True)
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
        names = ("name", "title", "doc", "policies", "policy", "config", "context", "input", "secrets")
        return tuple(name for name in (*names, "queue", "limit") if getattr(self, name) != getattr(usual, name))

    def make(self) -> Any:
        """Return the object: a new one if it has a factory."""
        return self.target() if self.factory else self.target

    def policy_of(self, *names: str) -> Policy | None:
        """Return the policy of a question by the first of these names (tool, step) that has one."""
        found = next((self.policies[name] for name in names if name in self.policies), None)
        return self.policy if found is None else found.over(self.policy)

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
    config: Mapping[str, Any] | None = None,
    context: Any = None,
    input: Any = None,  # noqa: A002
    secrets: Iterable[str] = (),
    queue: str = DEFAULT_QUEUE,
    limit: int | None = None,
) -> Served:
    """Serve a graph or workflow of another library, or a function without parameters that makes one.

    ``name``: what runs are kept under (default: the variable's name); ``policies``: step or tool -> the policy of its
    questions; ``policy``, ``by``: of all others; ``config`` and ``context``: what the library is called with;
    ``input``: the type of the input, where the object does not say; ``secrets``: fields that pages hide; ``queue``:
    only workers that serve it take its runs; ``limit``: how many of its runs may execute at once.
    ``ValueError``: an argument of another kind, or two that say the same.
    """
    asked = (by,) if isinstance(by, str) else tuple(by)
    if asked and asked != ("",) and policy is not None:
        raise ValueError("serve: give by= or policy=, not both")
    if wrong := [key for key, one in (policies or {}).items() if not isinstance(one, Policy)]:
        raise ValueError(f"serve: policies[{wrong[0]!r}] must be a Policy")
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
        policy=policy if policy is not None or not any(asked) else Policy(by=asked),
        config=dict(config or {}),
        context=context,
        input=input,
        secrets=frozenset([secrets] if isinstance(secrets, str) else secrets),
        queue=queue,
        limit=limit,
    )


@runtime_checkable
class Adopts(Protocol):
    """An engine for objects of another library. ``accepts`` gets such an object, every other method a ``Served``."""

    def parts(self, served: Served) -> Iterable[object]:
        """Return the objects that a served one is made of, such as its builder: they are not served as well."""

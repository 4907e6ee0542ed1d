"""Where in the code the problems of an invalid workflow are."""

from __future__ import annotations

import inspect
import re
from typing import Any

from wfdash.workflow.workflow import Workflow


def flaws_of(workflow: Workflow, error: Exception) -> tuple[tuple[str, str], ...]:
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

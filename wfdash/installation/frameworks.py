"""The frameworks whose workflows or agents wfdash takes: by which extra each is installed, and in which versions. Pure.

None is imported here: the question is what is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A framework: the extra that installs it, and its packages with the versions that wfdash knows.

    ``packages``: name -> the first version that can be used, and the first one that cannot, as it may be different.
    """

    extra: str
    packages: Mapping[str, tuple[str, str]]


FRAMEWORKS: Mapping[str, Framework] = {
    "langgraph": Framework(
        extra="langgraph", packages={"langgraph": ("1.2.12", "2"), "langgraph-checkpoint": ("4.3", "5")}
    ),
    "agent_framework": Framework(extra="agent-framework", packages={"agent-framework-core": ("1.23", "2")}),
    "pydantic_ai": Framework(extra="pydantic-ai", packages={"pydantic-ai-slim": ("2.60", "3")}),
    "agents": Framework(extra="openai-agents", packages={"openai-agents": ("0.24", "1")}),
}
"""By the module that is imported."""


class UnusableFramework(ImportError):
    """A framework is not installed, or in a version that wfdash does not know: the message says what to install."""


def check_framework(module: str) -> None:
    """Raise ``UnusableFramework`` unless a framework is installed in a version that can be used."""
    if problem := problem_with(module):
        raise UnusableFramework(problem, name=module)


def problem_with(module: str) -> str:
    """Return why a framework cannot be used and what to install, without a full stop; empty if it can be used."""
    framework = FRAMEWORKS[module]
    install = f'pip install "wfdash[{framework.extra}]"'
    for package, (since, before) in framework.packages.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            return f"{package} is not installed: {install}"
        if not _numbers(since) <= _numbers(found) < _numbers(before):
            return f"{package} {found} is installed, and {since} or newer, below {before}, is needed: {install}"
    return ""


def remedy_for(error: BaseException) -> str:
    """Return what to install where an import failed for want of a framework, as ``problem_with``; empty otherwise."""
    if not isinstance(error, ImportError) or isinstance(error, UnusableFramework):
        return ""
    module = (error.name or "").partition(".")[0]
    return problem_with(module) if module in FRAMEWORKS else ""


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: a pre-release counts as the release that it leads to."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()

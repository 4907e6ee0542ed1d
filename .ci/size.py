"""Measure the house and hold it to ``.ci/size.toml``: a figure may fall, and none may rise.

``tokens``: executable tokens of the two packages, without comments, docstrings, imports and migrations.
``modules``: Python files; ``single``: those that exactly one other module imports.
``once``: private top-level functions that are used once, in their own module.
``test_lines``: lines of tests. ``rooms``: folders directly below the two packages, and the loose files of wfdash, but
for what Django finds by its name and no room imports; ``arrows``: pairs of rooms of which one imports the other;
``floors``: rooms on the longest way along arrows.
``doc_words``: words of all pages of docs/ but those in docs/internals/. The README has a limit of its own.

``python .ci/size.py --lower`` writes figures that have fallen.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

PACKAGES = ("checkpoints", "wfdash")
LIMITS = Path(".ci/size.toml")
README = {"readme_words": 600, "readme_lines": 90}
FRAME = {"__main__", "admin", "apps", "asgi", "management", "migrations", "settings", "urls"}
"""What Django, a server or Python finds by its name."""
UNCOUNTED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def main() -> int:
    """Compare the figures with their limits; return the exit status."""
    figures, limits = measure(), tomllib.loads(LIMITS.read_text())
    lowered = {name: min(limit, figures[name]) for name, limit in limits.items()}
    limits |= README
    for name, limit in limits.items():
        sys.stdout.write(f"{name:12}{figures[name]:>10,}{limit:>10,}\n")
    if "--lower" in sys.argv:
        head = "".join(line for line in LIMITS.read_text().splitlines(keepends=True) if line.startswith("#"))
        LIMITS.write_text(head + "".join(f"{name} = {limit}\n" for name, limit in lowered.items()))
        return 0
    risen = [name for name, limit in limits.items() if figures[name] > limit]
    if risen:
        sys.stderr.write(f"Above the limit of {LIMITS}: {', '.join(risen)}. Remove as much as you add.\n")
    return 1 if risen else 0


def measure() -> dict[str, int]:
    """Return each figure by its name."""
    paths = [path for package in PACKAGES for path in sorted(Path(package).rglob("*.py"))]
    trees = {_name(path): ast.parse(path.read_text()) for path in paths}
    imports = {name: _imports(tree, trees) for name, tree in trees.items()}
    importers = Counter(target for targets in imports.values() for target in targets)
    rooms, arrows = _plan(imports)
    return {
        "tokens": sum(_tokens(path) for path in paths if "migrations" not in path.parts),
        "modules": len(paths),
        "single": sum(importers[_name(path)] == 1 for path in paths if path.name != "__init__.py"),
        "once": sum(map(_used_once, trees.values())),
        "test_lines": sum(path.read_text().count("\n") for path in Path("tests").rglob("*.py")),
        "rooms": len(rooms),
        "floors": _floors(rooms, arrows),
        "arrows": len(arrows),
        "doc_words": sum(
            len(path.read_text().split()) for path in Path("docs").rglob("*.md") if "internals" not in path.parts
        ),
        "readme_words": len(Path("README.md").read_text().split()),
        "readme_lines": Path("README.md").read_text().count("\n"),
    }


def plan() -> tuple[set[str], set[tuple[str, str]]]:
    """Return the rooms, and of which room each imports another."""
    trees = {_name(path): ast.parse(path.read_text()) for package in PACKAGES for path in Path(package).rglob("*.py")}
    return _plan({name: _imports(tree, trees) for name, tree in trees.items()})


def _plan(imports: dict[str, set[str]]) -> tuple[set[str], set[tuple[str, str]]]:
    arrows = {(_room(name), _room(to)) for name, targets in imports.items() for to in targets if to in imports}
    between = {(above, below) for above, below in arrows if above and below and above != below}
    return {_room(name) for name in imports} - {""}, between


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    loose = package == "checkpoints" and Path(package, f"{room}.py").exists()
    return f"{package}.{room}" if room and room not in FRAME and not loose else ""


def _imports(tree: ast.Module, modules: dict[str, ast.Module]) -> set[str]:
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in full}
    return found


def _tokens(path: Path) -> int:
    text = path.read_text()
    unread: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            unread |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in UNCOUNTED and token.start[0] not in unread for token in tokens)


def _used_once(tree: ast.Module) -> int:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    used = Counter(node.id if isinstance(node, ast.Name) else node.attr for node in nodes)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(node.name.startswith("_") and used[node.name] == 1 for node in functions)


def _floors(rooms: set[str], arrows: set[tuple[str, str]]) -> int:
    below = defaultdict(set)
    for upper, lower in arrows:
        below[upper].add(lower)

    @cache
    def height(room: str) -> int:
        return 1 + max(map(height, below[room]), default=0)

    return max(map(height, rooms))


if __name__ == "__main__":
    sys.exit(main())

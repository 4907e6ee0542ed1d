"""The shape of the house: rooms, which way imports point, and what works without Django."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOUN_NAMES = "account audit checkpoints hooks people requests runs schedules statistics workflows"
NOUNS = {*NOUN_NAMES.split()}
SHARED = {
    "wfdash/actions": "common pacing retention",
    "wfdash/web/api": "document long_poll params router",
    "wfdash/web/pages": "site tags ui",
    "wfdash/queries": "history palette run_names search step_states timemachine unreadable workers",
    "templates": "api bare base components errors mail standalone",
    "static/js": "live site",
    "static/css": "site standalone",
}
"""What the layers that are divided by nouns have besides: what every noun uses."""
MOST_FILES = 18
NAMELESS = {"lib", "util", "utils", "helper", "helpers", "misc", "stuff"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PURE = next(contract for contract in CONTRACTS if contract["type"] == "forbidden")


def pure_modules() -> list[str]:
    """Return every module that must not import Django, by the contract's folders."""
    files = [path.relative_to(ROOT) for folder in ("checkpoints", "wfdash") for path in (ROOT / folder).rglob("*.py")]
    names = sorted(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files)
    rooms = tuple(line.removesuffix(" -> django").removesuffix(".**") for line in PURE["ignore_imports"])
    within = tuple(PURE["source_modules"])
    return [name for name in names if _under(name, within) and not _under(name, rooms)]


def _under(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(f"{folder}.") for folder in folders)


def test_no_room_is_crowded() -> None:
    kinds = (".py", ".html", ".js", ".css")
    folders = ("checkpoints", "wfdash", "templates", "static", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in kinds]
    # Migrations are a history: their names are numbers, and none may be moved.
    rooms = Counter(str(path.parent.relative_to(ROOT)) for path in files if path.parent.name != "migrations")
    assert {room: count for room, count in rooms.items() if count > MOST_FILES} == {}


def test_every_name_says_what_is_inside() -> None:
    paths = [path for folder in ("checkpoints", "wfdash", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in paths if NAMELESS & {part.removesuffix(".py") for part in path.parts[-3:]}] == []


@pytest.mark.parametrize("layer", SHARED)
def test_the_rooms_of_every_layer_are_the_same_nouns(layer: str) -> None:
    inside = {path.stem for path in (ROOT / layer).iterdir() if not path.name.startswith("__")}
    assert inside - NOUNS - {*SHARED[layer].split()} == set()


def test_only_one_module_says_which_class_people_are() -> None:
    """A project has a user model of its own: everything asks ``checkpoints.models.user_model``."""
    own = re.compile(r"from django\.contrib\.auth\.models import .*\bUser\b|\busername(__\w+)?=(?!username)")
    asks = ("checkpoints/models/user_model.py", "wfdash/access/signin/backend.py", "wfdash/web/pages/account/signin.py")
    paths = [path for folder in ("checkpoints", "wfdash") for path in (ROOT / folder).rglob("*.py")]
    named = {str(path.relative_to(ROOT)) for path in paths if own.search(path.read_text())}
    assert named - set(asks) == set()


def test_addresses_are_named_in_the_namespace_of_the_dashboard() -> None:
    """A project that includes them has an ``inbox`` of its own."""
    bare = re.compile(r"{% url ['\"][\w-]+['\"]|\b(?:reverse|redirect)\(\s*['\"][\w-]+['\"]")
    paths = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "wfdash").rglob("*.py")]
    assert {str(path.relative_to(ROOT)): found for path in paths if (found := bare.findall(path.read_text()))} == {}


def test_no_page_or_script_expects_to_be_at_the_root_of_its_host() -> None:
    at_root = re.compile(
        r"(?:fetch|register|LiveSocket|startsWith)\([\"'`]/|(?:href|action|data-live|hx-get|hx-post)=\"/[a-z?]"
    )
    paths = [*(ROOT / "static").rglob("*.js"), *(ROOT / "templates").rglob("*.html")]
    assert [str(path.relative_to(ROOT)) for path in paths if at_root.search(path.read_text())] == []


@pytest.mark.process
def test_a_module_of_the_pure_half_that_imports_django_breaks_its_contract(tmp_path: Path) -> None:
    for package in ("checkpoints", "wfdash"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    names = pure_modules()
    for name in names:
        path = tmp_path.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        file.write_text(file.read_text() + "\nimport django.db\n")
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    env = os.environ | {"PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert [name for name in names if not re.search(rf"\b{re.escape(name)} -> django\b", done.stdout)] == []


def test_every_module_below_the_packages_is_in_a_layer() -> None:
    layered = [contract for contract in CONTRACTS if contract.get("containers")]
    assert [contract["containers"] for contract in layered] == [["wfdash"], ["checkpoints"]]
    assert all(contract["exhaustive"] and not contract.get("exhaustive_ignores") for contract in layered)


PAGE = ROOT / "docs/internals/architecture.md"


def test_the_tables_of_the_architecture_page_have_one_row_for_each_room() -> None:
    rows = re.findall(r"^\| (`(?:checkpoints|wfdash)/[^|]*) \|", PAGE.read_text(), flags=re.MULTILINE)
    named = sorted(path.rstrip("/") for row in rows for path in re.findall(r"`([^`]+)`", row))
    assert named == sorted(
        path.relative_to(ROOT).as_posix()
        for package in ("checkpoints", "wfdash")
        for path in (ROOT / package).iterdir()
        if not path.name.startswith(("__init__", "__pycache__")) and (path.is_dir() or path.suffix == ".py")
    )


def test_the_drawing_has_every_room_once_and_every_import_points_to_a_lower_floor() -> None:
    head, _, *lines = PAGE.read_text().partition("```text\n")[2].partition("```")[0].splitlines()
    left, right = head.index("wfdash/"), head.index("checkpoints/")
    floors: dict[str, int] = {}
    for line in lines:
        for package, rooms in (("wfdash", line[left:right]), ("checkpoints", line[right:])):
            floors |= {f"{package}.{room}": int(line[:left]) for room in rooms.split()}
    rooms, arrows = runpy.run_path(str(ROOT / ".ci/size.py"))["plan"]()
    assert floors.keys() == rooms
    assert [arrow for arrow in sorted(arrows) if floors[arrow[0]] <= floors[arrow[1]]] == []
    assert f"{len(rooms)} rooms on {max(floors.values())} floors" in PAGE.read_text()


SHARED_NAMES = {
    **dict.fromkeys(("Answer", "Checkpoint", "Claim", "Effect", "Event"), "a table, and the record of its rows"),
    **dict.fromkeys(("RequestRow", "RunRow"), "a stored row, and the row of a list"),
    **dict.fromkeys(
        ("AlreadyAnswered", "NotFound"), "the error of a storage, and of the dashboard with its HTTP status"
    ),
    **dict.fromkeys(
        (
            *("BadSignature", "BadToken", "Busy", "Changed", "ClaimLost", "ConditionMissing", "Conflict", "Damaged"),
            *("Incompatible", "Invalid", "KeyReused", "LinkUsed", "NoLongerOpen", "NotAllowed", "Outdated"),
            *("AlreadyFollowed", "CodeElsewhere", "TooManyTries", "TooOften", "Unsupported", "WrongState"),
        ),
        "an error of the server, and what the client raises for its code",
    ),
    "CheckpointStorage": "our port, and the framework's port of the same name over it",
    "Message": "of a conversation with a model, and of a stream that the client reads",
    "Shown": "what a person was shown, and what an engine shows of a checkpoint",
    **dict.fromkeys(("CharField", "TextField"), "once for the type checker, once for Django"),
}
"""Class names that two modules share, each with the reason."""


def test_no_two_classes_share_a_name_without_need() -> None:
    modules = [*ROOT.glob("checkpoints/**/*.py"), *ROOT.glob("wfdash/**/*.py")]
    product = [path for path in modules if not {"migrations", "examples"} & set(path.parts)]
    names = [
        node.name
        for path in product
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name not in {"Meta", "Command"}
    ]
    assert {name for name in names if names.count(name) > 1} <= SHARED_NAMES.keys()


TEMPLATES = {path.relative_to(ROOT / "templates").as_posix(): path for path in (ROOT / "templates").rglob("*.html")}
LONGEST_LINE = 160


def test_no_line_of_a_template_is_long() -> None:
    lines = [(name, line) for name, path in TEMPLATES.items() for line in path.read_text().splitlines()]
    assert [name for name, line in lines if len(line) > LONGEST_LINE] == []


def test_a_template_of_a_line_or_two_is_used_more_than_once() -> None:
    text = "\n".join(path.read_text() for path in TEMPLATES.values())
    python = "\n".join(path.read_text() for path in (ROOT / "wfdash").rglob("*.py"))
    once = [name for name in TEMPLATES if text.count(f'"{name}"') == 1 and f'"{name}"' not in python]
    assert [name for name in once if len(TEMPLATES[name].read_text().splitlines()) <= 3] == []


def test_no_space_comes_before_a_comma_of_a_template() -> None:
    # The formatter puts a block that follows another on a line of its own, so a space before what it begins with.
    loose = re.compile(r"^\s*\{% (?:if|for|with) [^%]*%\}[,;:.)!?]", re.MULTILINE)
    assert [name for name, path in TEMPLATES.items() if loose.search(path.read_text())] == []


def test_a_cell_that_may_have_nothing_in_it_is_empty_then() -> None:
    # On a narrow screen an empty cell is left out with its label; one with a line break in it would not be.
    maybe = re.compile(r"<td[^>]*>\s+\{% if (?:(?!</td>|\{% else)[\s\S])*\{% endif %\}\s+</td>")
    assert [name for name, path in TEMPLATES.items() if maybe.search(path.read_text())] == []


def test_no_private_helper_is_pasted() -> None:
    """Two private functions whose bodies differ in nothing but the names of locals belong in one place."""
    places: dict[str, list[str]] = {}
    for folder in ("checkpoints", "wfdash"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (body := shape_of(node)):
                    places.setdefault(body, []).append(f"{path.relative_to(ROOT)}: {node.name}")
    assert [twins for twins in places.values() if len(twins) > 1] == []


def shape_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a private function's body without the names of its locals, empty if it has fewer than three lines."""
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if function.name.startswith("__") or not function.name.startswith("_") or not body:
        return ""
    if body[-1].end_lineno - body[0].lineno < 2:  # type: ignore[operator]
        return ""
    names = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    inside = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Name)]
    names |= {node.id for node in inside if isinstance(node.ctx, ast.Store)}
    numbers: dict[str, str] = {}
    for node in inside:
        if node.id in names:
            node.id = numbers.setdefault(node.id, f"local_{len(numbers)}")
    return "\n".join(ast.dump(node) for node in body)


def test_every_script_that_a_page_names_exists() -> None:
    """They are named in a block, ``{% block scripts %}live/live{% endblock %}``: one file holds all of them."""
    blocks = re.compile(r"\{% block scripts %\}(.*?)\{% endblock %\}", re.DOTALL)
    pages = [path.read_text() for path in (ROOT / "templates").rglob("*.html")]
    base = (ROOT / "templates/base.html").read_text()
    attribute = base[base.index("data-scripts=") : base.index("{% block scripts %}")]
    named = {name for page in pages for block in blocks.findall(page) for name in block.split()}
    named |= set(re.findall(r"\b[a-z]+/[a-z-]+\b", attribute))
    assert {"live/live", "site/theme"} <= named
    assert {name for name in named if not (ROOT / f"static/js/{name}.js").is_file()} == set()

"""Where workflows come from: Python files, folders and modules, and the frameworks whose workflows or agents are taken.

Files are found and imported as Python itself would. The folder of a file is on ``sys.path``, as with
``python file.py``; a file inside a package is imported as a part of it, so that it can use relative imports.
Everything is loaded into one process: two files that mean different modules by one name are refused, not mixed up.

No framework is imported here: the question is which are installed, by which extra, and in which versions.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType, TracebackType

NO_WORKFLOWS = re.compile(r"__init__|__main__|conftest|manage|setup|test_.*|.*_test")
"""The names of files that are not read for workflows where a folder is given."""
_meant: dict[str, Path] = {}
"""Top-level name -> the file that it means for what is loaded so far."""


def problem_of(text: str) -> str:
    """Return why this source cannot be loaded, empty if it can."""
    path = Path(text)
    if path.is_dir():
        return "" if files_in(path) else f"{text} has no Python files"
    if path.is_file():
        return "" if path.suffix == ".py" else f"{text} is not a Python file"
    if path.suffix == ".py" or path.parts != (text,) or not all(part.isidentifier() for part in text.split(".")):
        return f"{text} does not exist"
    use_folder(Path.cwd(), last=True)
    found = importlib.util.find_spec(text.partition(".")[0])
    return "" if found else f"{text} not found: no such file, folder or module"


def files_in(folder: Path) -> list[Path]:
    """Return a folder's Python files, by name, without subfolders, tests and what only builds or starts a project."""
    return sorted(path for path in folder.glob("*.py") if not NO_WORKFLOWS.fullmatch(path.stem))


def expanded(source: str) -> list[str]:
    """Return a folder's files, any other source unchanged."""
    return [str(path) for path in files_in(Path(source))] if Path(source).is_dir() else [source]


def import_source(source: str) -> list[ModuleType]:
    """Return the modules of a file, or of a dotted name; of a package also its module ``workflows``.

    ``ImportError`` if there is none, or if it means other modules by names that are in use.
    """
    if source.endswith(".py") or Path(source).is_file():
        return [_import_file(Path(source))]
    use_folder(Path.cwd(), last=True)
    module = importlib.import_module(source)
    within = f"{source}.workflows"
    inner = hasattr(module, "__path__") and importlib.util.find_spec(within) is not None
    return [module, importlib.import_module(within)] if inner else [module]


def use_folder(folder: Path, *, last: bool = False) -> None:
    """Put a folder on ``sys.path``, before all others or after them."""
    if str(folder) not in sys.path:
        sys.path.insert(len(sys.path) if last else 0, str(folder))


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ImportError(f"{path} not found")
    use_folder(path.parent)
    _refuse_other_meanings(path)
    package = list(path.parent.relative_to(_root_of(path.parent)).parts)
    if package:
        root = _root_of(path.parent)
        use_folder(root)
        name = ".".join([*package, path.stem])
        _refuse_taken(package[0], root / package[0] / "__init__.py", path)
        return importlib.import_module(name)
    return _import_alone(path)


def _import_alone(path: Path) -> ModuleType:
    """Return a file's module under the name by which others import it: a module runs once.

    Where another module has that name already, such as of a second file called ``workflows.py``, the file gets a name
    of its own.
    """
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    name, digest = path.stem, blake2b(str(path).encode(), digest_size=6).hexdigest()
    if loaded is not None or name in sys.stdlib_module_names or _meant.get(name, path) != path:
        name = f"wfdash_served_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _root_of(folder: Path) -> Path:
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _refuse_other_meanings(path: Path) -> None:
    """Raise ``ImportError`` if the file, or a module beside it that it uses, means another module by a name in use."""
    pending, seen = [path], {path}
    while pending:
        current = pending.pop()
        for name in _imported(current):
            places = (path.parent / name / "__init__.py", path.parent / f"{name}.py")
            beside = next((one for one in places if one.is_file()), None)
            if beside is None or name in sys.stdlib_module_names:
                continue
            _refuse_taken(name, beside, path)
            if beside not in seen:
                seen.add(beside)
                pending.append(beside)


def _refuse_taken(name: str, meant: Path, by: Path) -> None:
    loaded = getattr(sys.modules.get(name), "__file__", None)
    other = Path(loaded).resolve() if loaded else _meant.get(name, meant)
    if other != meant:
        raise ImportError(
            f"{by.name} imports {name!r} and means {meant}, but in this process {name!r} is {other}:"
            " give one of the two another name, or put each into a package"
        )
    _meant.setdefault(name, meant)


def _imported(path: Path) -> Iterator[str]:
    """Yield the top-level names that a file imports absolutely, wherever in it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # The import reports it better.
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


# The modules and files of authors: those beside their workflows, never those of Python, packages or wfdash itself.

OURS = (Path(__file__).resolve().parents[1], Path(__file__).resolve().parents[2] / "checkpoints")
MOST_WATCHED = 2_000
Stamps = dict[Path, tuple[int, int]]
"""File -> when it was written, in nanoseconds, and its size."""


def is_installed(filename: str) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    packages = "site-packages" in filename or "dist-packages" in filename
    return packages or filename.startswith(sysconfig.get_path("stdlib"))


def is_code_of(filename: str, source: str) -> bool:
    """Return whether a file was written by the author of a source: it is not installed, or in the source's package."""
    if not is_installed(filename):
        return True
    root, module = root_of(source), sys.modules.get(source)
    return filename == getattr(module, "__file__", None) or (root is not None and root in Path(filename).parents)


def own_traceback(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback from the first line of authors' code on; None if none of their lines is in it."""
    here = error.__traceback__
    while here is not None and not is_own(here.tb_frame.f_code.co_filename):
        here = here.tb_next
    return here


def is_own(filename: str) -> bool:
    """Return whether a file was written by an author: it is neither Python's nor installed nor a part of wfdash."""
    ours = any(place in Path(filename).parents for place in OURS)
    return not (filename.startswith("<") or ours or is_installed(filename))


def root_of(source: str) -> Path | None:
    """Return the folder in which a source and what it imports are: of a file, of a folder, of a module's package."""
    path = Path(source)
    if path.is_dir() or source.endswith(".py"):
        return _root_of((path if path.is_dir() else path.parent).resolve())
    found = importlib.util.find_spec(source.partition(".")[0])
    inner = importlib.util.find_spec(source) if found else None
    spec = inner if inner and inner.submodule_search_locations else found
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]).resolve() if places else None


def author_modules(roots: Iterable[Path], *, but: Iterable[str] = ()) -> dict[str, ModuleType]:
    """Return the imported modules below these folders. ``but``: packages that stay as they are."""
    kept, folders = tuple(but), tuple(roots)
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        stays = name == "__main__" or any(name == one or name.startswith(f"{one}.") for one in kept)
        if file and not stays and _is_author_s(Path(file), folders):
            found[name] = module
    return found


def forget(modules: dict[str, ModuleType]) -> None:
    """Take modules out of ``sys.modules``, so that their files are read again."""
    for name in modules:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def stamps(roots: Iterable[Path], modules: Iterable[ModuleType], *, more: Iterable[Path] = ()) -> Stamps:
    """Return the state of every Python file beside the sources and the modules, changed since or not."""
    files = {Path(module.__file__) for module in modules if module.__file__}
    folders = {*roots, *(file.parent for file in files), *(file.parent for file in more)}
    beside = [file for folder in sorted(folders) for file in sorted(folder.glob("*.py"))]
    return {file: stamp for file in [*files, *beside[:MOST_WATCHED]] if (stamp := _stamp(file))}


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_author_s(file: Path, roots: tuple[Path, ...]) -> bool:
    around = [root for root in roots if root in file.parents]
    if not around or is_installed(str(file)):
        return False
    ours = next((place for place in OURS if place in file.parents), None)
    return ours is None or any(ours in root.parents for root in around)


# The source of served workflows, as it was when they were loaded, and whether its file has changed since.

LARGEST = 400_000
"""Bytes of a file that is kept; larger ones are not shown."""
MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A Python file with steps, as loaded. ``steps``: the first and the last line of each step's function."""

    path: Path
    text: str
    steps: Mapping[str, tuple[int, int]]
    changed_there: bool | None = None
    """Of a file on a worker's disk, of which this machine's says nothing: whether it had changed."""

    @property
    def lines(self) -> list[str]:
        """Return its lines, numbered as Python numbers them."""
        return self.text.removesuffix("\n").split("\n")

    def has_changed(self) -> bool:
        """Return whether the file is another one now, or gone."""
        return read_source(self.path) != self.text if self.changed_there is None else self.changed_there


def read_source(path: Path) -> str | None:
    """Return a file's text with plain line ends, None where it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError:
        return None
    text = found.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return text if len(found) <= LARGEST else None


def load_sources(places: Iterable[tuple[str, str, int]]) -> tuple[SourceFile, ...]:
    """Return the files of these places (step, file, first line), in their order; unreadable ones are left out."""
    by_file: dict[str, list[tuple[str, int]]] = {}
    for step, file, line in places:
        by_file.setdefault(file, []).append((step, line))
    found = ((Path(file), read_source(Path(file)), steps) for file, steps in by_file.items())
    files = [
        SourceFile(path=path, text=text, steps=_spans(text, steps)) for path, text, steps in found if text is not None
    ]
    return tuple(files[:MOST_SHOWN])


def _spans(text: str, steps: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Return where each function begins, its decorators included, and where it ends."""
    ends = _functions(text)
    return {step: (line, ends.get(line, line)) for step, line in steps}


@lru_cache(maxsize=MOST_SHOWN)
def _functions(text: str) -> Mapping[int, int]:
    """Return the last line of each function by its first: of all workflows of a file, which is parsed once."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    firsts = [min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) for node in found]
    return {first: node.end_lineno or first for first, node in zip(firsts, found, strict=True)}


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
    "google.adk": Framework(extra="adk", packages={"google-adk": ("2.13", "3")}),
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
    package, _, rest = (error.name or "").partition(".")
    # Of "google", which many share, nothing may be there.
    name = ".".join([package, rest.partition(".")[0] or "adk"]) if package == "google" else package
    return problem_with(name) if name in FRAMEWORKS else ""


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: a pre-release counts as the release that it leads to."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()

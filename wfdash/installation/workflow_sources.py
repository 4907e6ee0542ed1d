"""Python files, folders and modules with workflows: found and imported as Python itself would.

The folder of a file is on ``sys.path``, as with ``python file.py``; a file inside a package is imported as a part of
it, so that it can use relative imports. Everything is loaded into one process: two files that mean different modules by
one name are refused, not mixed up.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

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
    package = _package_of(path.parent)
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


def _package_of(folder: Path) -> list[str]:
    """Return the names of a folder's packages, from the outermost; empty if it is none."""
    return list(folder.relative_to(_root_of(folder)).parts)


def _refuse_other_meanings(path: Path) -> None:
    """Raise ``ImportError`` if the file, or a module beside it that it uses, means another module by a name in use."""
    pending, seen = [path], {path}
    while pending:
        current = pending.pop()
        for name in _imported(current):
            beside = next((one for one in _places(path.parent, name) if one.is_file()), None)
            if beside is None or name in sys.stdlib_module_names:
                continue
            _refuse_taken(name, beside, path)
            if beside not in seen:
                seen.add(beside)
                pending.append(beside)


def _places(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / name / "__init__.py", folder / f"{name}.py"


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

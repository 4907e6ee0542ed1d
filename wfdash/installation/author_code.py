"""The modules and files of authors: those beside their workflows, never those of Python, packages or wfdash itself."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType, TracebackType

OURS = (Path(__file__).resolve().parents[1], Path(__file__).resolve().parents[2] / "checkpoints")
MOST_FILES = 2_000
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
        folder = (path if path.is_dir() else path.parent).resolve()
        while (folder / "__init__.py").is_file():
            folder = folder.parent
        return folder
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
    return {file: stamp for file in [*files, *beside[:MOST_FILES]] if (stamp := _stamp(file))}


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

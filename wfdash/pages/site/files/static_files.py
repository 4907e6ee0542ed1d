"""The dashboard's own files: the style sheet and script of every page, made of many, and every other one.

WhiteNoise answers for those on the disk where wfdash is a project of its own; below a project's prefix this does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from mimetypes import guess_type
from pathlib import Path

import django_htmx
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.templatetags.static import static
from django.urls import reverse
from django.utils._os import safe_join
from django.views.decorators.http import require_safe

from wfdash.installation.location import folder_of, static_version
from wfdash.pages.site.files.scripts import bundle_of, map_of

SHEETS = (
    "site/tokens",
    "site/base",
    "site/components",
    "site/copy",
    "site/lists",
    "site/palette",
    "site/forms",
    "site/content",
    "site/transcript",
    "requests/card",
    "requests/dock",
    "site/diff",
    "account/notifications",
    "site/touch",
    "site/print",
)
"""The style sheets of every page, in the order in which they apply."""
FOREVER = "max-age=31536000, public, immutable"
BRIEFLY = "max-age=60, public"


@require_safe
def static_file(request: HttpRequest, version: str, name: str) -> HttpResponseBase:
    """Answer for a file of ours, or one of another version.

    Pages of another version of wfdash, in a browser or from another server during an upgrade, get today's file.
    """
    current = version == version_of_files()
    if name in MADE and current:
        make, content_type = MADE[name]
        return HttpResponse(make(), content_type=content_type, headers={"Cache-Control": FOREVER})
    path = own_file(name)
    if current and path is not None:
        kind = guess_type(path.name)[0] or "application/octet-stream"
        return HttpResponse(path.read_bytes(), content_type=kind, headers={"Cache-Control": FOREVER})
    if current or not _exists(name):
        raise Http404
    ours = path is not None or name in MADE
    return HttpResponseRedirect(address_of(name) if ours else static(name), headers={"Cache-Control": BRIEFLY})


@cache
def version_of_files() -> str:
    """Return the version of all our files, which is a part of their address."""
    return static_version([folder_of("static")])


def address_of(name: str) -> str:
    """Return the address of a file of ours, such as ``css/site.css``."""
    return reverse("wfdash:static", args=[version_of_files(), name])


def own_file(name: str) -> Path | None:
    """Return where a file of ours is; None if there is none."""
    folder = HTMX if name.startswith("django_htmx/") else folder_of("static")
    try:
        path = Path(safe_join(folder, name))
    except (SuspiciousFileOperation, ValueError):  # above the folder, or no file's name
        return None
    return path if path.is_file() else None


@cache
def site_sheet() -> str:
    """Return the style sheets of every page as one: a browser asks once."""
    return "\n".join((folder_of("static") / f"css/{name}.css").read_text() for name in SHEETS)


@cache
def site_script() -> str:
    """Return the scripts of every page as one."""
    return bundle_of(script_sources())


@cache
def script_map() -> str:
    """Return where each line of the script is from, for a browser's developer tools."""
    return map_of(script_sources())


def script_sources() -> dict[str, str]:
    """Return the text of each script by its name, ``site/time``."""
    folder = folder_of("static") / "js"
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text() for path in sorted(folder.rglob("*.js"))
    }


MADE: Mapping[str, tuple[Callable[[], str], str]] = {
    "css/site.css": (site_sheet, "text/css; charset=utf-8"),
    "js/site.js": (site_script, "text/javascript; charset=utf-8"),
    "js/site.js.map": (script_map, "application/json"),
}
"""Files made of several, and their content type."""
HTMX = Path(str(django_htmx.__file__)).parent / "static"


def _exists(name: str) -> bool:
    try:
        return name in MADE or finders.find(name) is not None
    except (SuspiciousFileOperation, ValueError):  # above the folder, or no file's name
        return False

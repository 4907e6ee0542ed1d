"""Static files that WhiteNoise does not serve: the style sheet and script of every page, and addresses of another
version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.templatetags.static import static
from django.views.decorators.http import require_safe

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
    """Answer for a file that is not on the disk under this version.

    Pages of another version of wfdash, in a browser or from another server during an upgrade, get today's file.
    """
    current = version == settings.STATIC_VERSION
    if name in MADE and current:
        make, content_type = MADE[name]
        return HttpResponse(make(), content_type=content_type, headers={"Cache-Control": FOREVER})
    if current or not _exists(name):
        raise Http404
    return HttpResponseRedirect(static(name), headers={"Cache-Control": BRIEFLY})


@cache
def site_sheet() -> str:
    """Return the style sheets of every page as one: a browser asks once."""
    return "\n".join(Path(str(finders.find(f"css/{name}.css"))).read_text() for name in SHEETS)


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
    folder = Path(str(finders.find("js/site/theme.js"))).parents[1]
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text() for path in sorted(folder.rglob("*.js"))
    }


MADE: Mapping[str, tuple[Callable[[], str], str]] = {
    "css/site.css": (site_sheet, "text/css; charset=utf-8"),
    "js/site.js": (site_script, "text/javascript; charset=utf-8"),
    "js/site.js.map": (script_map, "application/json"),
}
"""Files made of several, and their content type."""


def _exists(name: str) -> bool:
    try:
        return name in MADE or finders.find(name) is not None
    except (SuspiciousFileOperation, ValueError):  # above the folder, or no file's name
        return False

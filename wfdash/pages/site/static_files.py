"""Static files that WhiteNoise does not serve: the style sheet of every page, and addresses of another version."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.templatetags.static import static
from django.views.decorators.http import require_safe

SHEETS = (
    "site/tokens",
    "site/base",
    "site/components",
    "site/palette",
    "site/forms",
    "site/content",
    "requests/card",
    "requests/dock",
    "site/diff",
    "account/notifications",
    "site/print",
)
"""The style sheets of every page, in the order in which they apply."""
SITE_SHEET = "css/site.css"
FOREVER = "max-age=31536000, public, immutable"
BRIEFLY = "max-age=60, public"


@require_safe
def static_file(request: HttpRequest, version: str, name: str) -> HttpResponseBase:
    """Answer for a file that is not on the disk under this version.

    Pages of another version of wfdash, in a browser or from another server during an upgrade, get today's file.
    """
    current = version == settings.STATIC_VERSION
    if name == SITE_SHEET and current:
        return HttpResponse(site_sheet(), content_type="text/css; charset=utf-8", headers={"Cache-Control": FOREVER})
    if current or not _exists(name):
        raise Http404
    return HttpResponseRedirect(static(name), headers={"Cache-Control": BRIEFLY})


@cache
def site_sheet() -> str:
    """Return the style sheets of every page as one: a browser asks once."""
    return "\n".join(Path(str(finders.find(f"css/{name}.css"))).read_text() for name in SHEETS)


def _exists(name: str) -> bool:
    try:
        return name == SITE_SHEET or finders.find(name) is not None
    except (SuspiciousFileOperation, ValueError):  # above the folder, or no file's name
        return False

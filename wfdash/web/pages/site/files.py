"""Files that browsers keep: style sheet, scripts, and what makes the dashboard an app on a phone."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Mapping
from functools import cache
from mimetypes import guess_type
from pathlib import Path

import django_htmx
from django import template
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils._os import safe_join
from django.views.decorators.http import require_safe

from wfdash.installation.location import folder_of, static_version
from wfdash.notifications.rendering import render

# What makes the dashboard an app on a phone: its manifest, its service worker, and the page without a connection.

COLOURS = {"light": "#f7f6f2", "dark": "#121516"}
"""The background of pages (``--bg`` of ``static/css/site/tokens.css``), which the bars of a phone continue."""
ICONS = ((192, "any"), (512, "any"), (512, "maskable"))


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """Describe the app for browsers that install it."""
    drawn = [{"src": address_of("img/favicon.svg"), "sizes": "any", "type": "image/svg+xml", "purpose": "any"}]
    icons = [
        {
            "src": address_of(f"img/app-{size}{'-maskable' if purpose == 'maskable' else ''}.png"),
            "sizes": f"{size}x{size}",
            "type": "image/png",
            "purpose": purpose,
        }
        for size, purpose in ICONS
    ]
    described = {
        "id": reverse("wfdash:inbox"),
        "name": "wfdash",
        "short_name": "wfdash",
        "description": "Requests that wait for your decision, and the runs behind them",
        "start_url": reverse("wfdash:inbox"),
        "scope": reverse("wfdash:inbox"),
        "display": "standalone",
        "background_color": COLOURS["light"],
        "theme_color": COLOURS["light"],
        "icons": [*drawn, *icons],
        "shortcuts": [
            {"name": "Focus", "url": reverse("wfdash:focus")},
            {"name": "Runs", "url": reverse("wfdash:runs")},
        ],
    }
    return JsonResponse(described, content_type="application/manifest+json", headers={"Cache-Control": "max-age=3600"})


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the worker's script. It lies at the top, or it could not answer for all pages."""
    return HttpResponse(
        worker_script(), content_type="text/javascript; charset=utf-8", headers={"Cache-Control": "no-cache"}
    )


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Return the page that a browser shows without a connection: the same for everyone."""
    return render(request, "errors/offline.html")


@cache
def worker_script() -> str:
    """Return the script with the addresses of this version: another version is another worker."""
    facts = {
        "version": version_of_files(),
        "root": reverse("wfdash:inbox"),
        "offline": reverse("wfdash:offline"),
        "kept": [reverse("wfdash:offline"), *map(address_of, ("css/site.css", "fonts/inter.woff2", "img/logo.svg"))],
        "icon": address_of("img/app-192.png"),
    }
    text = (folder_of("static") / "service-worker.js").read_text()
    return f"const APP = {json.dumps(facts)};\n{text}"


# The dashboard's own files: the style sheet and script of every page, made of many, and every other one.

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


register = template.Library()


@register.simple_tag(name="asset")
def address_of(name: str) -> str:
    """Return the address of a file of ours, such as ``css/site.css``. ``{% asset %}`` is known to every template."""
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


# All scripts of the pages as one file: a browser asks once, and has them for every page.

MAP = "site.js.map"
IMPORT = re.compile(r'import (?:(?P<names>\{[^}]*\}) from )?"(?P<path>\.{1,2}/[^"]+)\.js";(?P<rest> *(?://.*)?)')
EXPORT = re.compile(r"export (?P<code>(?:async function|function|class|const) (?P<name>\w+).*)")
START = """const loaded = {};
function load(name) {
  if (!loaded[name]) modules[name]((loaded[name] = {}));
  return loaded[name];
}
for (const name of document.querySelector("script[data-scripts]").dataset.scripts.match(/\\S+/g) ?? []) {
  try { load(name); } catch (error) { reportError(error); }
}
"""
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def bundle_of(sources: Mapping[str, str]) -> str:
    """Return one script that holds these modules, from their names (``site/time``) to their text.

    ``ValueError`` names the line that is more than the few forms of import and export that are understood here.
    """
    modules = [module_of(name, text, sources) for name, text in sources.items()]
    return "\n".join(["const modules = {", *modules, "};", START, f"//# sourceMappingURL={MAP}", ""])


def module_of(name: str, text: str, known: Mapping[str, str]) -> str:
    """Return a module as a property: its name, and the function that runs it, with one line for each of its lines."""
    exported: list[str] = []
    lines = [_line(name, number, line, known, exported) for number, line in enumerate(_lines(text), 1)]
    return "\n".join([f'"{name}"(exports) {{', *lines, f"Object.assign(exports, {{ {', '.join(exported)} }}); }},"])


def map_of(sources: Mapping[str, str]) -> str:
    """Return the source map of the bundle: from each line of a module to that line of its file."""
    mappings, line_before, source_before = [""], 0, 0  # the first line of the bundle is its own
    for source, text in enumerate(sources.values()):
        count = len(_lines(text))
        first = [0, source - source_before, -line_before, 0]
        mappings += ["", _digits(first), *[_digits([0, 0, 1, 0])] * (count - 1), ""]
        line_before, source_before = count - 1, source
    found = {"version": 3, "file": "site.js", "sources": [f"{name}.js" for name in sources], "names": []}
    return json.dumps({**found, "mappings": ";".join(mappings)})


def _line(name: str, number: int, line: str, known: Mapping[str, str], exported: list[str]) -> str:
    found, folder = IMPORT.fullmatch(line), posixpath.dirname(name)
    if found and (path := posixpath.normpath(posixpath.join(folder, found["path"]))) in known:
        names = (found["names"] or "").replace(" as ", ": ")
        return f'{"const " + names + " = " if names else ""}load("{path}");{found["rest"]}'
    if found := EXPORT.fullmatch(line):
        exported.append(found["name"])
        return found["code"]
    if re.match(r"(import|export)\b", line):
        raise ValueError(f"{name}.js, line {number}: {line!r} is not a form that the bundle of scripts understands")
    return line


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _digits(numbers: list[int]) -> str:
    """Return numbers in base 64 as source maps have them: five bits each, the sign first, the last without a mark."""
    written = ""
    for number in numbers:
        left = (abs(number) << 1) | (number < 0)
        while True:
            digit, left = left & 31, left >> 5
            written += BASE64[digit | (32 if left else 0)]
            if not left:
                break
    return written

"""What makes the dashboard an app on a phone: its manifest, its service worker, and the page without a connection.

The worker keeps the page that says so, its style and the logo, and nothing else: what is behind the sign-in is never
stored in a browser, so a lost phone or a shared computer has nothing to show.
"""

from __future__ import annotations

import json
from functools import cache

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from wfdash.installation.location import folder_of
from wfdash.pages.site.files.static_files import address_of, version_of_files
from wfdash.rendering import render

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
        "kept": [reverse("wfdash:offline"), address_of("css/site.css"), address_of("img/logo.svg")],
        "icon": address_of("img/app-192.png"),
    }
    text = (folder_of("static") / "service-worker.js").read_text()
    return f"const APP = {json.dumps(facts)};\n{text}"

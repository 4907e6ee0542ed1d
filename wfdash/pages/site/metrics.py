"""``/metrics``: all metrics, for a scraper with the token, or for a person who operates everything."""

from __future__ import annotations

import hmac

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from wfdash.access.viewer import EVERY
from wfdash.pages.site.decorators import viewer_of
from wfdash.pages.site.prometheus import DatabaseCollector

REFUSAL = (
    "These metrics cover all workflows. Scrape them with the header 'Authorization: Bearer ...' and the "
    "value of WFDASH_METRICS_TOKEN, or sign in as a user who can operate every workflow.\n"
)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics in the text format, or 403."""
    if not _may_scrape(request):
        return HttpResponse(REFUSAL, status=403, content_type="text/plain")
    registry = CollectorRegistry()
    registry.register(DatabaseCollector())
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _may_scrape(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token: str = settings.WFDASH_METRICS_TOKEN
    if token and scheme.lower() == "bearer":
        return hmac.compare_digest(given.strip().encode(), token.encode())
    return "operate" in viewer_of(request).rights.get(EVERY, frozenset())

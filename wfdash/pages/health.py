"""Two addresses for whoever watches the process: is it alive, and can it serve."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Answer 200 as long as the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database is there and migrated, else 503 with the reason in words."""
    problem = _problem()
    return HttpResponse(f"{problem or 'ok'}\n", status=503 if problem else 200, content_type="text/plain")


def _problem() -> str:
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError:
        return "the database does not answer"
    return f"{len(pending)} migrations are not applied" if pending else ""

"""The HTTP API: the same queries and actions as the pages, as JSON. For tokens, and for signed-in
sessions with Django's CSRF token.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ninja import NinjaAPI
from ninja.operation import Operation

from wfdash.api import audit, messages, schedules, search, statistics, workflows
from wfdash.api.account import absences, me, notifications, views
from wfdash.api.auth import AUTH
from wfdash.api.bodies import StrictParser
from wfdash.api.checkpoints import listing as checkpoints
from wfdash.api.checkpoints import time_machine
from wfdash.api.document import completed
from wfdash.api.etags import sent_once
from wfdash.api.params import refuse_unknown_parameters, without_fields_of_pages
from wfdash.api.people import access, accounts, groups
from wfdash.api.problems import add_error_handlers
from wfdash.api.requests import answers, collaboration, many
from wfdash.api.requests import listing as requests
from wfdash.api.runs import bulk, events, lifecycle, parts, signals, versions
from wfdash.api.runs import listing as runs

ROUTERS = {
    "workflows": [workflows.router],
    # Bulk operations before the address of one run, which would take "bulk" for an id.
    "runs": [bulk.router, runs.router, events.router, lifecycle.router, parts.router, signals.router, versions.router],
    "checkpoints": [checkpoints.router, time_machine.router],
    "requests": [many.router, requests.router, answers.router, collaboration.router],
    "schedules": [schedules.router],
    "audit": [audit.router],
    "statistics": [statistics.router],
    "people": [accounts.router, groups.router, access.router],
    "account": [me.router, notifications.router, views.router, absences.router, search.router],
}
"""The routers by the noun under which the reference shows their operations."""


class Api(NinjaAPI):
    """The framework's API whose document says all that callers need to know."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the name of its function, which is unique."""
        return str(operation.view_func.__name__)

    def get_openapi_schema(self, **options: Any) -> Any:
        """Return the OpenAPI document."""
        return completed(super().get_openapi_schema(**options))


api = Api(title="wfdash", version="1", auth=AUTH, docs_url=None, urls_namespace="wfdash:api", parser=StrictParser())
add_error_handlers(api)
api.add_decorator(refuse_unknown_parameters)
api.add_decorator(without_fields_of_pages)
api.add_decorator(sent_once, mode="view")
for tag, routers in ROUTERS.items():
    for router in routers:
        api.add_router("", router, tags=[tag])
api.add_router("", messages.router)


@lru_cache(maxsize=1)
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document, made once."""
    found: dict[str, Any] = api.get_openapi_schema()
    return found

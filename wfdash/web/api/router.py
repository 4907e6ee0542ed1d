"""The HTTP API: the same queries and actions as the pages, as JSON. For tokens, and for signed-in
sessions with Django's CSRF token.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ninja import NinjaAPI
from ninja.operation import Operation

from wfdash.web.api import (
    account,
    audit,
    checkpoints,
    messages,
    people,
    requests,
    runs,
    schedules,
    statistics,
    workflows,
)
from wfdash.web.api.auth import AUTH
from wfdash.web.api.document import completed
from wfdash.web.api.etags import sent_once
from wfdash.web.api.params import StrictParser, refuse_unknown_parameters, without_fields_of_pages
from wfdash.web.api.problems import add_error_handlers

ROUTERS = {
    "workflows": workflows.router,
    "runs": runs.router,
    "checkpoints": checkpoints.router,
    "requests": requests.router,
    "schedules": schedules.router,
    "audit": audit.router,
    "statistics": statistics.router,
    "people": people.router,
    "account": account.router,
}
"""The router of each noun under which the reference shows their operations."""


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
for tag, router in ROUTERS.items():
    api.add_router("", router, tags=[tag])
api.add_router("", messages.router)


@lru_cache(maxsize=1)
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document, made once."""
    found: dict[str, Any] = api.get_openapi_schema()
    return found

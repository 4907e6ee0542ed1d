"""The HTTP API: the same queries and actions as the pages, as JSON. For tokens, and for signed-in
sessions with Django's CSRF token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation

from wfdash.domain.errors import REFUSALS, wrong
from wfdash.web.api import (
    account,
    audit,
    checkpoints,
    document,
    people,
    requests,
    runs,
    schedules,
    workflows,
)
from wfdash.web.api.document import completed
from wfdash.web.api.params import (
    AUTH,
    BadBody,
    StrictParser,
    refuse_unknown_parameters,
    sent_once,
    without_fields_of_pages,
)
from wfdash.web.problems import problem_response

INVALID = "Invalid request. See the errors of each field. Nothing was changed."
MISSING = "This field is required"
NO_OBJECT = "Send a JSON object with the fields of this operation"

WORDS = {
    "missing": MISSING,
    "model_attributes_type": "Must be an object with fields",
    "model_type": "Must be an object with fields",
}


def add_error_handlers(api: NinjaAPI) -> None:
    """Give the framework's own errors the format of the dashboard's, which the pages' middleware returns."""

    @api.exception_handler(Exception)
    def hand_on(request: HttpRequest, error: Exception) -> HttpResponse:
        raise error

    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
        return problem_response(request, REFUSALS[404])

    @api.exception_handler(HttpError)
    def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
        why = str(error.__cause__) if isinstance(error.__cause__, BadBody) else ""
        return problem_response(request, REFUSALS.get(error.status_code, REFUSALS[400]), why)

    @api.exception_handler(ValidationError)
    def unfit(request: HttpRequest, error: ValidationError) -> HttpResponse:
        errors = [_location_and_message(one) for one in error.errors]
        return problem_response(request, REFUSALS[422], INVALID, {"errors": errors})


def _location_and_message(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return location and message, without the framework's own names in the path: of the body, and of its parameter."""
    where, *loc = found["loc"]
    loc = loc[1:] if where == "body" else loc
    if where == "body" and not loc:
        return wrong("", NO_OBJECT)
    return {"loc": loc, "msg": WORDS.get(found["type"], found["msg"])}


ROUTERS = {
    "workflows": workflows.router,
    "runs": runs.router,
    "checkpoints": checkpoints.router,
    "requests": requests.router,
    "schedules": schedules.router,
    "audit": audit.router,
    "statistics": workflows.statistics,
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
api.add_router("", document.router)


@lru_cache(maxsize=1)
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document, made once."""
    found: dict[str, Any] = api.get_openapi_schema()
    return found

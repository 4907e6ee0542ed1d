"""Errors of the API: the framework's own, in the format that the dashboard's have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from wfdash.domain.errors import REFUSALS
from wfdash.web.api.params import BadBody
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
        return {"loc": [], "msg": NO_OBJECT}
    return {"loc": loc, "msg": WORDS.get(found["type"], found["msg"])}

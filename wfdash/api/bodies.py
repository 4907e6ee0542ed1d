"""Request bodies of the API, which allow no unknown field, and errors in the API's one format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel, ConfigDict, model_validator
from pydantic import ValidationError as Unfit
from pydantic_core import InitErrorDetails, PydanticCustomError

INVALID_BODY = "Invalid request. See the errors of each field. Nothing was changed."
WORDS = {
    400: "Invalid body: send JSON",
    401: "Not signed in. Send a session cookie",
    403: "CSRF token missing or invalid. Send the cookie's token in the X-CSRFToken header",
    404: "Not found",
}
MISSING = "This field is required"


class Body(BaseModel):
    """A JSON body. An unknown field is refused: a typo must not become a default."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        unknown = [name for name in given if name not in cls.model_fields] if isinstance(given, Mapping) else []
        if unknown:
            kind = PydanticCustomError("unknown_field", f"Unknown field. Available: {', '.join(cls.model_fields)}")
            found = [InitErrorDetails(type=kind, loc=(str(name),), input=None) for name in unknown]
            raise Unfit.from_exception_data(cls.__name__, found)
        return given


def error_response(status: int, words: str, facts: Mapping[str, Any]) -> HttpResponse:
    """Return an error in the API's format."""
    return JsonResponse({"error": words, "status": status, "facts": dict(facts)}, status=status)


def add_error_handlers(api: NinjaAPI) -> None:
    """Give the framework's own errors the format of the dashboard's, which the pages' middleware returns."""

    @api.exception_handler(Exception)
    def hand_on(request: HttpRequest, error: Exception) -> HttpResponse:
        raise error

    @api.exception_handler(Http404)
    def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
        return error_response(404, WORDS[404], {})

    @api.exception_handler(HttpError)
    def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
        return error_response(error.status_code, WORDS.get(error.status_code, str(error)), {})

    @api.exception_handler(ValidationError)
    def unfit(request: HttpRequest, error: ValidationError) -> HttpResponse:
        return error_response(422, INVALID_BODY, {"errors": [_location_and_message(one) for one in error.errors]})


def _location_and_message(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return location and message, without the framework's own names in the path: of the body, and of its parameter."""
    where, *loc = found["loc"]
    return {"loc": loc[1:] if where == "body" else loc, "msg": MISSING if found["type"] == "missing" else found["msg"]}

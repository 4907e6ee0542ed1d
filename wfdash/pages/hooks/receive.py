"""The address at which an incoming webhook receives: for programs, without a session, answered as the API does."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from wfdash.actions.hooks.receive import LARGEST
from wfdash.actions.hooks.receive import receive as receive_delivery
from wfdash.errors import REFUSALS
from wfdash.problems import problem_response


@csrf_exempt
@require_POST
def receive_hook(request: HttpRequest, hook_id: str) -> HttpResponse:
    """Act on a delivery: 202 with the run, 200 if it came before; a problem otherwise."""
    body = request.read(LARGEST + 1)
    if len(body) > LARGEST:
        return problem_response(request, REFUSALS[413], f"A delivery has at most {LARGEST:,} bytes")
    done = receive_delivery(hook_id, dict(request.headers.items()), body)
    given = {"id": done.id, "outcome": done.outcome, "run": done.run}
    return JsonResponse(given, status=200 if done.outcome == "duplicate" else 202)

"""The HTTP API: the same queries and actions as the pages, as JSON. For tokens, and for signed-in
sessions with Django's CSRF token.
"""

from __future__ import annotations

from ninja import NinjaAPI

from wfdash.api import schedules, workflows
from wfdash.api.account import me
from wfdash.api.auth import AUTH
from wfdash.api.checkpoints import listing as checkpoints
from wfdash.api.checkpoints import time_machine
from wfdash.api.params import refuse_unknown_parameters
from wfdash.api.problems import add_error_handlers
from wfdash.api.requests import answers, collaboration
from wfdash.api.requests import listing as requests
from wfdash.api.runs import bulk, events, lifecycle, signals, versions
from wfdash.api.runs import listing as runs

ROUTERS = {
    # Bulk operations before the address of one run, which would take "bulk" for an id.
    "runs": [bulk.router, runs.router, events.router, lifecycle.router, signals.router, versions.router],
    "checkpoints": [checkpoints.router, time_machine.router],
    "requests": [requests.router, answers.router, collaboration.router],
    "schedules": [schedules.router],
    "workflows": [workflows.router],
    "account": [me.router],
}
"""The routers by the noun under which the reference shows their operations."""

api = NinjaAPI(title="wfdash", version="1", auth=AUTH, docs_url=None, urls_namespace="wfdash:api")
add_error_handlers(api)
api.add_decorator(refuse_unknown_parameters)
for tag, routers in ROUTERS.items():
    for router in routers:
        api.add_router("", router, tags=[tag])

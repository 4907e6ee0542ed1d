"""The API of requests: list and read them."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router

from wfdash.api.auth import viewer_of
from wfdash.api.params import Limit, Wait
from wfdash.long_poll import say_later
from wfdash.queries.requests.inbox import read_inbox
from wfdash.queries.requests.request import read_request
from wfdash.records.requests import RequestDetail, RequestPage

router = Router()
Tab = Literal["mine", "groups", "unassigned", "asked", "all", "answered"]


@router.get("/requests", response=RequestPage)
def list_requests(request: HttpRequest, tab: Tab = "mine", q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return a tab of the inbox: mine, groups, unassigned, asked, all, answered. 422 names the invalid part of the
    filter.
    """
    return read_inbox(viewer_of(request), tab, q, cursor=after, limit=limit)


@router.get("/requests/{request_id}", response=RequestDetail)
def get_request(request: HttpRequest, request_id: str, wait: Wait = 0) -> Any:
    """Return one request with its card, the schema of answers, and its answer. ``wait``: at most so many seconds until
    it is answered or closed.
    """
    found = read_request(viewer_of(request), request_id)
    if wait and found.state in {"open", "settling"}:
        say_later(request, found.run, wait)
    return found

"""Errors of the API as RFC 9457 has them (``application/problem+json``)."""

from __future__ import annotations

from pydantic import ConfigDict

from wfdash.records.base import ApiRecord

MEDIA_TYPE = "application/problem+json"


class FieldProblem(ApiRecord):
    """What is wrong with one value. ``loc``: the way to it, empty for the whole."""

    loc: list[str | int]
    msg: str


class Problem(ApiRecord):
    """Why a call was refused. ``code`` is stable, ``detail`` is for people.

    Facts of the problem are further fields: who answered first, after how many seconds to try again.
    """

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []

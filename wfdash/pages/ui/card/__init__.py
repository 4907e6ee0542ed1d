"""The decision card: what is shown, and how an answer is read."""

from __future__ import annotations

from wfdash.domain.votes import EDITED
from wfdash.pages.ui.card.actions import ActionButton, PostedAnswer, read_answer, unedited
from wfdash.pages.ui.card.card import Action, CardView, build
from wfdash.pages.ui.card.media import CardMedia, json_at, media_at
from wfdash.pages.ui.card.parts import CardPart
from wfdash.pages.ui.card.position import PathStep, path_through
from wfdash.pages.ui.card.tables import TableView

__all__ = [
    "EDITED",
    "Action",
    "ActionButton",
    "CardMedia",
    "CardPart",
    "CardView",
    "PathStep",
    "PostedAnswer",
    "TableView",
    "build",
    "json_at",
    "media_at",
    "path_through",
    "read_answer",
    "unedited",
]

"""The decision card: what is shown, and how an answer is read."""

from __future__ import annotations

from wfdash.domain.votes import EDITED
from wfdash.web.pages.ui.card.card import (
    Action,
    ActionButton,
    CardView,
    PathStep,
    PostedAnswer,
    build,
    path_through,
    read_answer,
    unedited,
)
from wfdash.web.pages.ui.card.parts import CardMedia, CardPart, TableView, json_at, media_at

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

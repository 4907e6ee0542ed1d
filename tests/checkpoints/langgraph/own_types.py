"""A class that a state may hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from pydantic import BaseModel


@dataclass(frozen=True)
class Own:
    n: int


@dataclass
class Holder:
    own: Own

    @dataclass
    class Inner:
        """A class that its module does not name."""

        n: int


class Moment(datetime):
    """A moment that says more than another."""


class Colour(Enum):
    RED = "red"


class Painted(BaseModel):
    """A model that makes a colour of its value."""

    colour: Colour

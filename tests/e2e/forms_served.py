"""A workflow with a form that has everything people fill in: served beside the dashboard by its file."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, Base64Bytes, BaseModel, Field, SecretStr

from wfdash.workflow import Context, Form, Workflow


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str = Field(pattern=r"^\d{4}$", examples=["4242"])


class Transfer(BaseModel):
    kind: Literal["transfer"] = "transfer"
    iban: str
    instant: bool = False


class Line(BaseModel):
    what: str = Field(min_length=1)
    amount: Decimal = Field(gt=0, description="Before tax")


def must_be_even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even: seats come in pairs")
    return number


class Booking(BaseModel):
    title: str = Field(min_length=1, max_length=80, description="What the trip is for")
    seats: Annotated[int, AfterValidator(must_be_even)] = 2
    level: Level = Level.LOW
    tags: set[Literal["train", "plane", "hotel"]] = set()
    on: date
    takes: timedelta = timedelta(hours=1)
    token: SecretStr
    pay: Annotated[Card | Transfer, Field(discriminator="kind")]
    lines: list[Line] = []
    limits: dict[str, int] = {}
    receipt: Base64Bytes | None = Field(None, json_schema_extra={"contentMediaType": "image/png"})


wf = Workflow("booking")


@wf.step(start=True)
async def book(ctx: Context) -> dict[str, str]:
    """Ask for a booking, and give back what was understood."""
    booked = await ctx.ask(Form(subject="Book the trip"), answer=Booking)
    lines = ", ".join(f"{line.what} {line.amount}" for line in booked.lines)
    return {"title": booked.title, "pay": booked.pay.kind, "lines": lines, "takes": str(booked.takes)}

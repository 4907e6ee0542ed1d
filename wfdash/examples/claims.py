"""What ``expense_batch`` reads and writes: claims from CSV, payments to CSV. Pure."""

from __future__ import annotations

import csv
import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError
from pydantic.config import JsonDict

SAMPLE = (Path(__file__).parent / "data" / "claims.csv").read_text()
"""One month of a small company: about 200 claims, some of them large, some of them invalid."""
RATES = {"EUR": "1", "USD": "0.86", "GBP": "1.15", "CHF": "1.07", "SEK": "0.091"}
"""Euros per unit, as the company has fixed them for the month."""
LOOK: JsonDict = {"format": "textarea", "contentMediaType": "text/csv"}
Csv = Annotated[str, Field(max_length=500_000, json_schema_extra=LOOK)]
"""CSV as text: paste it or upload a file."""


class Claim(BaseModel):
    """One row. ``employee`` may not start like a formula: the payments are opened in spreadsheets."""

    id: str = Field(min_length=1)
    employee: str = Field(pattern=r"^[^\s=+@-]")
    date: dt.date
    category: str
    amount: Decimal = Field(gt=0, max_digits=10, decimal_places=2)
    currency: str = Field(pattern=f"^({'|'.join(RATES)})$")
    description: str

    @property
    def euros(self) -> Decimal:
        """The amount in euros, to the cent."""
        return (self.amount * Decimal(RATES[self.currency])).quantize(Decimal("0.01"))


def read_claims(text: str) -> tuple[list[Claim], list[str]]:
    """Return the valid rows and one sentence per invalid row; nothing is guessed."""
    claims, dirty, seen = list[Claim](), list[str](), set[str]()
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    for row in rows:
        try:
            claim = Claim.model_validate(row)
        except ValidationError as error:
            dirty.append(f"line {rows.line_num}: {explain(error)}")
            continue
        prints = {claim.id, claim.model_dump_json(exclude={"id"})}
        if prints & seen:
            dirty.append(f"line {rows.line_num}: {claim.id} was already submitted")
            continue
        seen |= prints
        claims.append(claim)
    return claims, dirty


def explain(error: ValidationError) -> str:
    """Return what is wrong with a row in one sentence: the field, its value, what it should be."""
    first = error.errors()[0]
    given = f" {first['input']!r}" if isinstance(first["input"], str) else ""
    return f"{first['loc'][0]}{given}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def write_payments(claims: list[Claim]) -> str:
    """Return the bank's file: one line per employee with the sum in euros and the claims it pays."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["employee", "euros", "claims"])
    for name in sorted({claim.employee for claim in claims}):
        own = [claim for claim in claims if claim.employee == name]
        table.writerow([name, sum(claim.euros for claim in own), " ".join(claim.id for claim in own)])
    return file.getvalue()

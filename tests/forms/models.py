"""Models of all that pydantic can ask of a person: the answer types of the generated forms."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import (
    AfterValidator,
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    HttpUrl,
    Json,
    SecretStr,
    model_validator,
)


class Level(Enum):
    LOW = "low"
    MID = "mid"
    HIGH = "high"


class Rank(IntEnum):
    FIRST = 1
    SECOND = 2


class Country(Enum):
    AUSTRIA = "AT"
    BELGIUM = "BE"
    CHILE = "CL"
    DENMARK = "DK"
    ESTONIA = "EE"
    FRANCE = "FR"


class Texts(BaseModel):
    title: str = Field(min_length=1, max_length=80, description="What it was for", examples=["Train"])
    code: str = Field(pattern=r"^[A-Z]{2}\d{3}$", examples=["AB123"])
    exact: str = Field(min_length=3, max_length=3)
    story: str = Field("", max_length=500)
    note: str | None = None


class Numbers(BaseModel):
    count: int = 1
    bounded: int = Field(ge=-5, le=5)
    open: int = Field(gt=0, lt=10)
    stepped: int = Field(multiple_of=5)
    ratio: float = Field(ge=0, le=1)
    above: float = Field(gt=0)
    maybe: float | None = None


class Money(BaseModel):
    plain: Decimal
    price: Decimal = Field(gt=0, le=1000, max_digits=7, decimal_places=2)
    rest: Decimal | None = None


class Times(BaseModel):
    on: date
    at: datetime
    aware: AwareDatetime
    clock: time
    takes: timedelta
    later: date | None = None
    pause: timedelta = timedelta(minutes=5)


class Formats(BaseModel):
    key: UUID
    page: AnyUrl
    site: HttpUrl
    mail: EmailStr
    host: IPv4Address
    shape: re.Pattern[str]
    where: PurePosixPath


class Choices(BaseModel):
    level: Level
    rank: Rank
    country: Country = Country.CHILE
    mode: Literal["fast", "slow"]
    mixed: Literal[1, "1", True, None]
    maybe: Level | None = None


class Sets(BaseModel):
    levels: set[Level] = set()
    order: list[Country] = Field([], max_length=3)
    flags: frozenset[Literal["a", "b c", "d"]]
    numbers: set[int] = set()


class Switches(BaseModel):
    agreed: bool
    loud: bool = True
    maybe: bool | None = None


class Address(BaseModel):
    street: str
    zip: str = Field(min_length=5, max_length=5)
    country: Country = Country.AUSTRIA


class Nested(BaseModel):
    home: Address
    work: Address | None = None
    spare: Address = Address(street="Main", zip="12345")


class Line(BaseModel):
    what: str = Field(min_length=1)
    amount: Decimal = Field(gt=0)
    tags: list[str] = []


class Lines(BaseModel):
    lines: list[Line] = Field(min_length=1, max_length=4)
    grid: list[list[int]] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool


class Fish(BaseModel):
    kind: Literal["fish"]
    salt: Literal["fresh", "sea"]


Pet = Annotated[Cat | Dog | Fish, Field(discriminator="kind")]


class Pets(BaseModel):
    first: Pet
    second: Pet | None = None
    rest: list[Pet] = []


class Unions(BaseModel):
    either: int | str
    perhaps: int | bool | None = None
    one_of: Address | Line | str
    several: list[int | Literal["all"]] = []


class Dictionaries(BaseModel):
    limits: dict[str, int] = {}
    by_level: dict[Level, str] = {}
    coded: dict[Annotated[str, Field(pattern="^[a-z]+$")], bool] = {}
    deep: dict[str, list[Line]] = {}


class Pair(NamedTuple):
    left: int
    right: str


class Tuples(BaseModel):
    point: tuple[float, float]
    named: Pair = Pair(1, "a")
    many: tuple[int, ...] = ()
    mixed: tuple[Level, Address] | None = None


class Tree(BaseModel):
    name: str
    left: Tree | None = None
    kids: list[Tree] = []


class Chain(BaseModel):
    link: Chain | Literal["end"] = "end"


class Files(BaseModel):
    blob: Base64Bytes
    raw: bytes = b""
    picture: Base64Bytes | None = Field(None, json_schema_extra={"contentMediaType": "image/png"})
    patch: str = Field("", json_schema_extra={"x-upload": True, "x-max-bytes": 200})
    data: Json[list[int]] = Field("[]", validate_default=True)


class Secrets(BaseModel):
    user: str
    token: SecretStr = Field(min_length=4)


class Anything(BaseModel):
    any: Any
    maybe: Any = None
    items: list[Any] = []
    words: dict[str, Any] = {}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    count: int = 0


class Empty(BaseModel):
    model_config = ConfigDict(extra="forbid")


def must_be_even(number: int) -> int:
    if number % 2:
        raise ValueError("must be even: take the next number")
    return number


Even = Annotated[int, AfterValidator(must_be_even)]


class Judged(BaseModel):
    """What no schema can say: the engine has the last word."""

    count: Even
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self) -> Judged:
        if self.low > self.high:
            raise ValueError("low must not be more than high: swap them")
        return self


class Parent(BaseModel):
    judged: Judged | None = None
    several: list[Even] = []


class Aliased(BaseModel):
    model_config = ConfigDict(validate_by_alias=True, validate_by_name=False)
    class_: str = Field(alias="class")
    dotted: int = Field(0, alias="a.b c")
    private: str = Field("", alias="_action")


class Everything(BaseModel):
    texts: Texts
    pets: Pets | None = None
    lines: list[Line] = []
    limits: dict[str, int] = {}
    level: Level = Level.LOW

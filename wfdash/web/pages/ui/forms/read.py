"""From the posted fields to a JSON value, along the schema. Pure.

What cannot be read stays in the value as it was typed, with an error beside it, so that nothing typed is lost.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from checkpoints.limits import MOST_NODES
from wfdash.domain.labels import escaped
from wfdash.values.schemas import formats
from wfdash.values.schemas.work import has_more_values
from wfdash.web.pages.ui.forms.spec import Loc, Schema, Schemas, Spec, child, index_of, others

MAX_ROWS = 1000
MOST_READ = 30_000
"""Places of a schema that are looked at: more than a form has fields, and options that are not shown."""

Post = Mapping[str, Sequence[str]]
Files = Mapping[str, bytes]


@dataclass(kw_only=True)
class ReadNotes:
    """What the value itself does not contain: errors and branches by place; by control, what was typed and picked.

    ``cleared``: controls that were left empty, which do not get their default back.
    """

    errors: dict[Loc, str] = field(default_factory=dict)
    branches: dict[Loc, tuple[Schema, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    picks: dict[str, str] = field(default_factory=dict)
    pairs: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)


class FormReader:
    """Reads one POST by one schema, collecting ``notes`` on the way."""

    def __init__(self, schemas: Schemas, post: Post, files: Files | None = None) -> None:
        self.schemas = schemas
        self.post = post
        self.files = files or {}
        self.notes = ReadNotes()
        self._left = MOST_READ

    def value(self, schema: Any, name: str, loc: Loc, required: bool, depth: int = 0) -> Any:
        """Return the value at this place, or ``MISSING``."""
        as_json = self._last_value(f"{name}$")
        if as_json is not None:
            return self._json(as_json, f"{name}$", loc)
        self._left -= 1
        if self._left < 0:
            self.notes.errors[()] = "This has more fields than a form can hold: write the value as JSON"
            return MISSING
        spec = self.schemas.spec(schema, depth, required)
        if spec.kind == "const":
            return spec.schema["const"]
        return _READERS.get(spec.kind, FormReader._scalar)(self, spec, name, loc, required, depth)

    def _last_value(self, name: str) -> str | None:
        return (self.post.get(name) or (None,))[-1]

    def _row_count(self, name: str) -> int | None:
        count = index_of(self._last_value(f"{name}!") or "")
        return None if count is None else min(count, MAX_ROWS)

    def _original(self, name: str) -> Any:
        """Return the value a control was rendered for, where its text alone is ambiguous."""
        packed = self._last_value(f"{name}@")
        if packed is None:
            return MISSING
        with contextlib.suppress(UnreadableText):
            value = read_json(packed)
            self.notes.originals[name] = packed
            return value
        return MISSING

    def _json(self, text: str, name: str, loc: Loc) -> Any:
        """Return a part of the value that is edited as JSON; an empty text is no value."""
        return self._typed(Spec(kind="json", schema={}), text, name, loc) if text.strip() else MISSING

    def _scalar(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        uploaded = self._upload(spec, name, loc)
        if uploaded is not None:
            return uploaded
        text = self._last_value(name)
        if text is None:
            return MISSING
        original = self._original(name)
        if original is not MISSING and show(spec, original) == text.replace("\r\n", "\n"):
            return original
        if not text or (text.isspace() and spec.kind not in {"text", "area", "secret"}):
            self.notes.cleared.add(name)
            return _nothing(spec, required)
        return self._typed(spec, text, name, loc)

    def _typed(self, spec: Spec, text: str, name: str, loc: Loc) -> Any:
        try:
            return read_scalar(spec, text)
        except UnreadableText as error:
            self.notes.errors[loc] = str(error)
            self.notes.texts[name] = text
            return text

    def _file(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        """Return a new file, else the previous one, unless it was removed."""
        uploaded = self._upload(spec, name, loc)
        if uploaded is not None:
            return uploaded
        kept = self._last_value(name)
        if f"{name}!away" in self.post:
            return _nothing(spec, required)
        return kept or self._unless_kept(spec, name, required)

    def _upload(self, spec: Spec, name: str, loc: Loc) -> str | None:
        content = self.files.get(f"{name}!file")
        if not content or not spec.uploads:
            return None
        try:
            if len(content) <= formats.limit_of(spec.schema):
                return formats.encode(spec.schema, content)
            self.notes.errors[loc] = formats.too_large(spec.schema)
        except UnicodeDecodeError:
            self.notes.errors[loc] = "The file is not UTF-8 text: choose another one, or save it as UTF-8"
        return self._last_value(name) or ""

    def _switch(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        given, drawn = self._last_value(name), f"{name}!" in self.post
        if (required and not spec.nullable) or ("default" in spec.schema and not spec.nullable):
            return given is not None if drawn or given is not None else MISSING
        if given:
            return {"true": True, "false": False}.get(given, given)
        return self._unless_kept(spec, name, required) if drawn else MISSING

    def _choice(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        token = self._last_value(name)
        if not token:
            return self._unless_kept(spec, name, required) if f"{name}!" in self.post else MISSING
        return dict(zip(tokens(spec.options), spec.options, strict=True)).get(token, token)

    def _checks(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        if f"{name}!" not in self.post:
            return MISSING
        given = set(self.post.get(name, ()))
        drawn = zip(tokens(spec.options), spec.options, strict=True)
        chosen = [option for token, option in drawn if token in given]
        original = self._original(name)
        if original is not MISSING and same(ticked(spec.options, original), chosen):
            return original
        return chosen if chosen or spec.stays(required) else MISSING

    def _group(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> dict[str, Any]:
        needed = spec.schema.get("required", ())
        fields = spec.schema.get("properties", {})
        value = {
            key: self.value(inner, child(name, key), (*loc, key), key in needed, depth + 1)
            for key, inner in fields.items()
        }
        more = self._pairs(spec, others(name), loc, True, depth)
        if more is MISSING:
            more = {}
        elif more.keys() & fields.keys():
            self.notes.errors[loc] = "Each entry needs a unique name"
        return {key: item for key, item in {**more, **value}.items() if item is not MISSING}

    def _rows(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        count = self._row_count(name)
        if not count:
            return self._none(spec, name, required, [])
        return [self._item(spec.schema["items"], name, loc, index, depth) for index in range(count)]

    def _unless_kept(self, spec: Spec, name: str, required: bool) -> Any:
        """Return the previous empty value, else the value of an empty control."""
        original = self._original(name)
        return _nothing(spec, required) if original is MISSING or original else original

    def _none(self, spec: Spec, name: str, required: bool, empty: Any) -> Any:
        """Return the value of a list without rows: an empty one where it is required, or was empty before."""
        if self._row_count(name) is None:
            return MISSING
        return empty if spec.stays(required) or self._original(name) is not MISSING else MISSING

    def _tuple(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        schemas: Sequence[Schema] = spec.schema["prefixItems"]
        return [self._item(schema, name, loc, index, depth) for index, schema in enumerate(schemas)]

    def _item(self, schema: Any, name: str, loc: Loc, index: int, depth: int) -> Any:
        value = self.value(schema, child(name, index), (*loc, index), True, depth + 1)
        if value is MISSING:
            self.notes.errors.setdefault((*loc, index), "Required, or remove this row")
            return None
        return value

    def _pairs(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        count = self._row_count(name)
        if not count:
            return self._none(spec, name, required, {})
        names = [child(name, index) for index in range(count)]
        pairs = [self._pair(spec, entry, loc, depth) for entry in names]
        nameless = any(not key and f"{entry}#!" not in self.post for entry, (key, _) in zip(names, pairs, strict=True))
        if nameless or len(dict(pairs)) < len(pairs):
            self.notes.pairs[name] = pairs
            self.notes.errors[loc] = "Each entry needs a unique name"
        return dict(pairs)

    def _pair(self, spec: Spec, name: str, loc: Loc, depth: int) -> tuple[str, Any]:
        key = self._last_value(f"{name}#") or ""
        value = self.value(spec.entries, name, (*loc, key), True, depth + 1)
        if value is MISSING:
            self.notes.errors.setdefault((*loc, key), "Required, or remove this row")
            return key, None
        return key, value

    def _union(self, spec: Spec, name: str, loc: Loc, required: bool, depth: int) -> Any:
        pick = self._last_value(f"{name}?")
        if pick is None:
            return MISSING
        self.notes.picks[name] = pick
        chosen = index_of(pick)
        if chosen is not None and chosen < len(spec.branches):
            branch = spec.branches[chosen]
            value = self.value(branch, child(name, chosen), loc, True, depth + 1)
            if value is not MISSING:
                self.notes.branches.setdefault(loc, (branch, value))
            return value
        return None if pick == "null" and spec.nullable else MISSING


def _nothing(spec: Spec, required: bool) -> Any:
    """Return the value of an empty control: null if that is allowed, an empty text over a default, else no value."""
    if spec.nullable:
        return None if spec.stays(required) else MISSING
    textual = spec.kind in {"text", "area", "secret"}
    return "" if textual and isinstance(spec.schema.get("default"), str) else MISSING


_READERS: dict[str, Callable[[FormReader, Spec, str, Loc, bool, int], Any]] = {
    "file": FormReader._file,
    "switch": FormReader._switch,
    "choice": FormReader._choice,
    "checks": FormReader._checks,
    "group": FormReader._group,
    "rows": FormReader._rows,
    "tuple": FormReader._tuple,
    "pairs": FormReader._pairs,
    "union": FormReader._union,
}


# JSON as text that people edit: read with errors that say where, and the line of every value. Pure.


class UnreadableText(ValueError):
    """The typed text is not a value of this kind; the message is for the person who typed it."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ``UnreadableText`` with line and column."""
    if has_more_values(text.encode(errors="replace"), MOST_NODES):
        raise UnreadableText(f"Must not hold more than {MOST_NODES:,} values")
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_number, object_pairs_hook=_object)
    except UnreadableText:
        raise
    except RecursionError as error:
        raise UnreadableText("Nested too deeply") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UnreadableText(f"Must be valid JSON ({where}: {_json_hint(error.msg)})") from error
    except ValueError as error:
        raise UnreadableText("Must be valid JSON: a number has too many digits") from error


def write(value: Any) -> str:
    """Return a value as text to edit; deceiving characters are written as their escapes, so that they are visible."""
    return escaped(json.dumps(value, indent=2, ensure_ascii=False))


def lines_of(text: str) -> dict[Loc, int]:
    """Return the line of every value of a valid JSON text, by place; empty if it is nested too deep."""
    try:
        return dict(_Scan(text).values(()))
    except (RecursionError, IndexError):
        return {}


def path_of(loc: Loc) -> str:
    """Return a place as text: ``lines[0].amount``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return "".join(parts).removeprefix(".")


class _Scan:
    """Scans a valid text, token by token."""

    TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+)', re.DOTALL)

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        line, counted = 1, 0
        for match in self.TOKEN.finditer(text):
            line += text.count("\n", counted, match.start(1))
            counted = match.start(1)
            self.tokens.append((match[1], line))
        self.at = 0

    def values(self, loc: Loc) -> Iterator[tuple[Loc, int]]:
        """Yield a value and all within it, each with its line."""
        opening, line = self._next_token()
        yield loc, line
        if opening in {"{", "["}:
            yield from self._inside(loc, opening == "{")

    def _inside(self, loc: Loc, named: bool) -> Iterator[tuple[Loc, int]]:
        index = 0
        while self.tokens[self.at][0] not in {"}", "]"}:
            key: str | int = index
            if named:
                key = json.loads(self._next_token()[0])
                self._next_token()
            yield from self.values((*loc, key))
            index += 1
            if self.tokens[self.at][0] == ",":
                self._next_token()
        self._next_token()

    def _next_token(self) -> tuple[str, int]:
        self.at += 1
        return self.tokens[self.at - 1]


def _refuse_constant(name: str) -> Any:
    raise UnreadableText(f"JSON has no {name}: remove it or use null")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableText(f"The number {text[:40]} is too large")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise UnreadableText(f"The name {twice!r} is used twice: remove one")
    return made


def _json_hint(message: str) -> str:
    """Return the error of the standard library's parser as something to do."""
    remedies = {
        "Expecting value": "a value is missing, or text lacks double quotes",
        "Expecting property name enclosed in double quotes": "a name in double quotes is missing, or a comma is extra",
        "Expecting ',' delimiter": "a comma is missing",
        "Expecting ':' delimiter": "a colon is missing",
        "Unterminated string": "a double quote is missing",
        "Extra data": "extra text after the end",
        "Illegal trailing comma before end of object": "an extra comma before the end",
        "Illegal trailing comma before end of array": "an extra comma before the end",
    }
    return next((words for start, words in remedies.items() if message.startswith(start)), message.lower())


# One value and its text: ``show`` writes what a control displays, ``read`` takes what a person typed. Pure.

LOCAL_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?")
LOCAL_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,3})?)?")
LOCAL_DATE = re.compile(r"\d{4}-\d\d-\d\d")
MAX_DIGITS = 400


class MissingValue:
    """There is no value: the field was left empty and is not part of the answer."""


MISSING = MissingValue()


def show(spec: Spec, value: Any) -> str:
    """Return the text of a control for a value; a value of another type is shown unchanged."""
    if value is MISSING or value is None:
        return ""
    if spec.kind == "json":
        return write(value)
    if spec.kind == "duration" and isinstance(value, str):
        return to_words(value)
    if spec.kind == "datetime" and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            return value
        spoken = moment.isoformat(timespec="auto" if moment.microsecond % 1000 else "milliseconds")
        whole = spoken.removesuffix(".000")
        return whole.removesuffix(":00") if len(whole) == len("2026-11-21T05:09:10") else whole
    if spec.kind == "time" and isinstance(value, str):
        return value[:5] if re.fullmatch(r"\d\d:\d\d:00", value) else value
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def read_scalar(spec: Spec, text: str) -> Any:
    """Return the value of a non-empty text. Raises ``UnreadableText``."""
    return _SCALAR_READERS.get(spec.kind, _read_text)(text)


def tokens(options: tuple[Any, ...]) -> tuple[str, ...]:
    """Return what the browser sends for each option: its text, or JSON where texts would be ambiguous."""
    plain = tuple(option if isinstance(option, str) else json.dumps(option, sort_keys=True) for option in options)
    if "" in plain or len(set(plain)) < len(plain) or any("\n" in token or "\r" in token for token in plain):
        return tuple(json.dumps(option, sort_keys=True) for option in options)
    return plain


def ticked(options: tuple[Any, ...], value: Any) -> Any:
    """Return the options that occur in a list, in the order of the options; anything but a list is returned
    unchanged.
    """
    return (
        [option for option in options if any(same(option, item) for item in value)]
        if isinstance(value, list)
        else value
    )


def same(left: Any, right: Any) -> bool:
    """Say whether two JSON values are the same: unlike ``==``, true is not 1. ``MISSING`` is only itself."""
    if not isinstance(left, (dict, list)):
        return type(left) is type(right) and bool(left == right)
    return type(left) is type(right) and json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _read_text(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_integer(text: str) -> int:
    clean = text.strip()
    if not re.fullmatch(r"[+-]?\d+", clean, re.ASCII) or len(clean) > MAX_DIGITS:
        raise UnreadableText(f"Must be a whole number, such as 12{_number_hint(clean)}")
    return int(clean)


def _number_hint(text: str) -> str:
    """Return how to correct a number as people write it."""
    if not re.fullmatch(r"[+-]?[\d.]*[,' ][\d.,' ]*", text, re.ASCII):
        return ""
    return ": use a point for the fraction and no thousands separator"


def _read_number(text: str) -> int | float:
    clean = text.strip()
    if re.fullmatch(r"[+-]?\d+", clean, re.ASCII) and len(clean) <= MAX_DIGITS:
        return int(clean)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", clean, re.ASCII):
        raise UnreadableText(f"Must be a number, such as 12.5{_number_hint(clean)}")
    number = float(clean)
    if not math.isfinite(number):
        raise UnreadableText("This number is too large")
    return number


def _read_decimal(text: str) -> int | float | str:
    """Return a JSON number where it is exactly the same, trailing zeros included, else the digits as text."""
    number = _read_number(text)
    try:
        exact = Decimal(text.strip())
    except InvalidOperation as error:
        raise UnreadableText("Must be a number, such as 12.50") from error
    same = Decimal(repr(number))
    equal = same == exact if "e" in text.lower() else same.as_tuple() == exact.as_tuple()
    return number if equal else text.strip()


def _read_span(text: str) -> str:
    """Return an ISO duration, from text or unchanged."""
    span = to_iso(text)
    if span is None:
        raise UnreadableText("Must be a duration, such as 1 h 30 min or 2 days")
    return span


def _read_moment(text: str) -> str:
    """Return an RFC 3339 time: the value of a browser's control is taken as UTC."""
    clean = text.strip()
    if not LOCAL_MOMENT.fullmatch(clean):
        return clean
    return f"{clean}:00Z" if len(clean) == len("2026-11-21T05:09") else f"{clean}Z"


def _read_time(text: str) -> str:
    clean = text.strip()
    return f"{clean}:00" if re.fullmatch(r"\d\d:\d\d", clean) else clean


_SCALAR_READERS: dict[str, Callable[[str], Any]] = {
    "integer": _read_integer,
    "number": _read_number,
    "decimal": _read_decimal,
    "duration": _read_span,
    "json": read_json,
    "datetime": _read_moment,
    "date": str.strip,
    "time": _read_time,
}


# Durations as people write them (``1 h 30 min``) and as ISO 8601 does (``PT1H30M``). Pure.

_ISO = re.compile(r"([+-]?)P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d+)?)S)?)?", re.ASCII)
_PART = re.compile(r"(\d+(?:[.,]\d+)?)\s*([a-z]+)", re.ASCII)
_WORDS = re.compile(r"([+-]?)\s*((?:\d+(?:[.,]\d+)?\s*[a-z]+(?:[\s,]+(?:and\s+)?)?)+)", re.ASCII)
_SECONDS = {
    604_800: ("w", "week", "weeks"),
    86_400: ("d", "day", "days"),
    3_600: ("h", "hr", "hrs", "hour", "hours"),
    60: ("m", "min", "mins", "minute", "minutes"),
    1: ("s", "sec", "secs", "second", "seconds"),
}
_UNITS = {name: seconds for seconds, names in _SECONDS.items() for name in names}

MAX_LENGTH = 100


def to_words(text: str) -> str:
    """Return an ISO duration as people write it; invalid ones, and those with months or years, unchanged."""
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        return text
    sign, *numbers = match.groups()
    parts = [f"{number} {unit}" for number, unit in zip(numbers, ("w", "d", "h", "min", "s"), strict=True) if number]
    return f"{'-' if sign == '-' else ''}{' '.join(parts)}"


def to_iso(text: str) -> str | None:
    """Return what a person wrote as an ISO duration; ISO unchanged; None for anything else."""
    clean = text.strip()[:MAX_LENGTH]
    if re.fullmatch(r"[+-]?[Pp][\dA-Za-z.,]+", clean, re.ASCII):
        return clean.upper()
    match = _WORDS.fullmatch(clean.lower())
    if match is None:
        return None
    found = _PART.findall(match[2])
    if any(unit not in _UNITS for _, unit in found):
        return None
    total = sum((Decimal(number.replace(",", ".")) * _UNITS[unit] for number, unit in found), Decimal(0))
    return _iso(total, negative=match[1] == "-")


def _iso(seconds: Decimal, *, negative: bool) -> str:
    whole, rest = int(seconds // 60), seconds % 60
    days, minutes = divmod(whole, 1440)
    hours, minutes = divmod(minutes, 60)
    clock = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{rest.normalize():f}S" if rest else ""]
    date = f"{days}D" if days else ""
    time = "".join(clock) or ("" if days else "0S")
    return f"{'-' if negative else ''}P{date}{'T' if time else ''}{time}"

"""The control of a scalar and its help text. Pure."""

from __future__ import annotations

import base64

from wfdash.pages.ui.forms.scalars import LOCAL_DATE, LOCAL_MOMENT, LOCAL_TIME, show
from wfdash.pages.ui.forms.spec import Spec
from wfdash.pages.ui.times import size
from wfdash.schemas import media
from wfdash.schemas.messages import display

_NUMBERS = {"integer": "numeric", "number": "decimal", "decimal": "decimal"}
_PICKERS = {
    "date": ("date", LOCAL_DATE),
    "datetime": ("datetime-local", LOCAL_MOMENT),
    "time": ("time", LOCAL_TIME),
}
MAX_LINES = 24
MAX_PREVIEW = 300_000
"""Characters of a file's text up to which an image is shown."""
PROSE = frozenset({"text/markdown", "text/plain"})
"""Media types of texts that are written in paragraphs."""


def control(spec: Spec, text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the template kind and the attributes of the control that can show this text unchanged."""
    if spec.kind in {"area", "json"} or "\n" in text:
        return "area", _area(spec, text)
    if spec.kind in _NUMBERS:
        look = (("type", "text"), ("inputmode", _NUMBERS[spec.kind]), ("autocomplete", "off"))
        return "input", (*look, *_placeholder(spec))
    if spec.kind == "duration":
        return "input", (("type", "text"), ("placeholder", _example(spec) or "1 h 30 min"), ("autocomplete", "off"))
    if spec.kind in _PICKERS:
        picker, shape = _PICKERS[spec.kind]
        fits = not text or shape.fullmatch(text)
        return "input", (("type", picker), ("step", "any")) if fits else (("type", "text"),)
    if spec.kind == "secret":
        return "input", (("type", "password"), ("autocomplete", "new-password"))
    return "input", (("type", "text"), ("inputmode", spec.input_type), *_placeholder(spec))


def _area(spec: Spec, text: str) -> tuple[tuple[str, str], ...]:
    # Lines of code stay lines; prose wraps, a file of it too.
    code = spec.kind == "json" or (spec.uploads and spec.schema.get("contentMediaType") not in PROSE)
    lines = min(max(text.count("\n") + 2, 6 if spec.uploads else 4), MAX_LINES)
    look: tuple[tuple[str, str], ...] = (("class", "mono"), ("spellcheck", "false"), ("wrap", "off")) if code else ()
    return (("rows", str(lines)), *look, *_placeholder(spec))


def _placeholder(spec: Spec) -> tuple[tuple[str, str], ...]:
    first = _example(spec)
    return (("placeholder", first),) if first and "\n" not in first else ()


def _example(spec: Spec) -> str:
    examples = spec.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else None
    return "" if first is None or isinstance(first, dict | list) else show(spec, first)


def help_of(spec: Spec) -> str:
    """Return the author's description and the limits, as text."""
    described = str(spec.schema.get("description") or "").strip()
    added = " ".join(part for part in (_limits(spec), _kind_hint(spec)) if part)
    ended = f"{described}." if described and added and described[-1] not in ".!?:;…" else described
    return f"{ended} {added}".strip()


def describe_file(spec: Spec, text: str) -> str:
    """Return a description of the file that a text represents, empty for none."""
    if not text:
        return ""
    try:
        content = media.decode(spec.schema, text)
    except ValueError:
        return "A file that cannot be read"
    kind = media.sniff(content)
    named = {"text/plain": "Text", media.BINARY: "File"}.get(kind, kind.partition("/")[2].upper())
    return f"{named}, {size(len(content))}"


def preview_of(spec: Spec, text: str) -> str:
    """Return an image of a file as a ``data:`` address, empty for none or a too large one."""
    if not text or len(text) > MAX_PREVIEW:
        return ""
    try:
        content = media.decode(spec.schema, text)
    except ValueError:
        return ""
    kind = media.sniff(content)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}" if kind.startswith("image/") else ""


def _limits(spec: Spec) -> str:
    if spec.kind in _NUMBERS:
        return _range(spec)
    if spec.kind in {"rows", "checks", "pairs"}:
        return _amount(
            spec, *(("minProperties", "maxProperties") if spec.kind == "pairs" else ("minItems", "maxItems"))
        )
    if spec.uploads:
        return f"{_file_kinds(spec)}At most {size(media.limit_of(spec.schema)).replace('.0 ', ' ')}."
    return _length(spec)


def _range(spec: Spec) -> str:
    low, above = spec.schema.get("minimum"), spec.schema.get("exclusiveMinimum")
    high, below = spec.schema.get("maximum"), spec.schema.get("exclusiveMaximum")
    step = spec.schema.get("multipleOf")
    steps = f", multiple of {display(step)}" if step is not None else ""
    if None not in (low, high) and above is None and below is None:
        return f"{display(low)} to {display(high)}{steps}."
    words = (
        [f"more than {display(above)}"] if above is not None else [f"{display(low)} or more"] if low is not None else []
    )
    if below is not None:
        words.append(f"less than {display(below)}")
    elif high is not None:
        words.append(f"at most {display(high)}")
    if not words:
        return f"{steps[2:].capitalize()}." if steps else ""
    return f"{', '.join(words).capitalize()}{steps}."


def _amount(spec: Spec, least: str, most: str) -> str:
    low, high = _int_keyword(spec, least) or 0, _int_keyword(spec, most)
    alone = " No duplicates." if spec.schema.get("uniqueItems") and spec.kind == "rows" else ""
    if high is None:
        return f"At least {low}.{alone}" if low else alone.strip()
    return f"{low} to {high}.{alone}" if low and low != high else f"{'Exactly' if low else 'At most'} {high}.{alone}"


def _length(spec: Spec) -> str:
    least, most = _int_keyword(spec, "minLength") or 0, _int_keyword(spec, "maxLength")
    if spec.kind not in {"text", "area", "secret"}:
        return ""
    shape = _shape(spec)
    if spec.schema.get("format") in {"uri", "url"} or (least <= 1 and most is None):
        return shape
    if most is None:
        return f"At least {least:,} characters. {shape}".strip()
    words = f"{least:,} to {most:,} characters." if 1 < least != most else f"At most {most:,} characters."
    return f"{f'Exactly {most:,} characters.' if least == most else words} {shape}".strip()


def _int_keyword(spec: Spec, key: str) -> int | None:
    given = spec.schema.get(key)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _shape(spec: Spec) -> str:
    """Return the pattern, where there is no example that shows it."""
    pattern = spec.schema.get("pattern")
    return f"Pattern: {pattern}" if isinstance(pattern, str) and not _example(spec) else ""


def _file_kinds(spec: Spec) -> str:
    kinds = [kind.partition("/")[2].removeprefix("x-").upper() for kind in media.wanted_types(spec.schema)]
    return f"{' or '.join(kinds)} file. " if kinds and not any("*" in kind for kind in kinds) else ""


def _kind_hint(spec: Spec) -> str:
    return {"datetime": "Time in UTC.", "json": "JSON."}.get(spec.kind, "")

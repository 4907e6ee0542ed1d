"""The control of a scalar and the words beside it. Pure."""

from __future__ import annotations

from typing import Any

from wfdash.pages.forms.scalars import LOCAL_DATE, LOCAL_MOMENT, LOCAL_TIME
from wfdash.pages.forms.spec import Spec

_NUMBERS = {"integer": "numeric", "number": "decimal", "decimal": "decimal"}
_PICKERS = {
    "date": ("date", LOCAL_DATE),
    "datetime": ("datetime-local", LOCAL_MOMENT),
    "time": ("time", LOCAL_TIME),
}
MAX_LINES = 24


def control(spec: Spec, text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the template kind and the attributes of the control that can show this text as it is."""
    if spec.kind in {"area", "json"} or "\n" in text:
        return "area", _area(spec, text)
    if spec.kind in _NUMBERS:
        return "input", (("type", "text"), ("inputmode", _NUMBERS[spec.kind]), ("autocomplete", "off"))
    if spec.kind in _PICKERS:
        picker, shape = _PICKERS[spec.kind]
        fits = not text or shape.fullmatch(text)
        return "input", (("type", picker), ("step", "any")) if fits else (("type", "text"),)
    if spec.kind == "secret":
        return "input", (("type", "password"), ("autocomplete", "new-password"))
    return "input", (("type", "text"), ("inputmode", spec.input_type), *_placeholder(spec))


def _area(spec: Spec, text: str) -> tuple[tuple[str, str], ...]:
    code = spec.kind == "json" or spec.uploads
    lines = min(max(text.count("\n") + 2, 6 if spec.uploads else 4), MAX_LINES)
    look: tuple[tuple[str, str], ...] = (("class", "mono"), ("spellcheck", "false"), ("wrap", "off")) if code else ()
    return (("rows", str(lines)), *look, *_placeholder(spec))


def _placeholder(spec: Spec) -> tuple[tuple[str, str], ...]:
    examples = spec.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else None
    return (("placeholder", first),) if isinstance(first, str) and "\n" not in first else ()


def help_of(spec: Spec) -> str:
    """Return the author's description and the limits, in words."""
    described = str(spec.schema.get("description") or "").strip()
    added = " ".join(part for part in (_limits(spec), _kind_hint(spec)) if part)
    ended = f"{described}." if described and added and described[-1] not in ".!?:;…" else described
    return f"{ended} {added}".strip()


def _limits(spec: Spec) -> str:
    low, high = _bound(spec, "minimum", "exclusiveMinimum"), _bound(spec, "maximum", "exclusiveMaximum")
    if spec.kind not in _NUMBERS or (low is None and high is None):
        return _length(spec)
    if low is not None and high is not None and "exclusiveMinimum" not in spec.schema:
        return f"Between {_told(low)} and {_told(high)}."
    words = (
        [f"More than {_told(low)}" if "exclusiveMinimum" in spec.schema else f"{_told(low)} or more"]
        if low is not None
        else []
    )
    if high is not None:
        words.append(f"less than {_told(high)}" if "exclusiveMaximum" in spec.schema else f"at most {_told(high)}")
    return f"{', '.join(words).capitalize()}."


def _bound(spec: Spec, inclusive: str, exclusive: str) -> Any:
    bound = spec.schema.get(inclusive, spec.schema.get(exclusive))
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _told(number: Any) -> str:
    """Return a number as people read it: ``400,000``."""
    return f"{number:,}" if isinstance(number, int | float) and not isinstance(number, bool) else str(number)


def _length(spec: Spec) -> str:
    least, most = spec.schema.get("minLength") or 0, spec.schema.get("maxLength")
    if spec.kind not in {"text", "area"} or (least <= 1 and most is None):
        return ""
    if most is None:
        return f"At least {least:,} characters."
    return f"{least:,} to {most:,} characters." if least > 1 else f"At most {most:,} characters."


def _kind_hint(spec: Spec) -> str:
    return {"datetime": "Time in UTC.", "json": "JSON."}.get(spec.kind, "")

"""From another system's JSON to a workflow's message: a template with JSON Pointers. Pure.

The template has the form of the message. ``{"$": "/order/total"}`` is the value at that pointer (RFC 6901,
``""`` is the whole delivery), ``{"$": "/note", "default": "none"}`` for one that may be missing; all else is taken as
it is.
"""

from __future__ import annotations

from typing import Any

from wfdash.domain.json_patch import parts_of

DEEPEST = 20
MISSING = object()


def mapped(template: Any, delivery: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return the message, and a problem per value that the delivery does not have: ``{"loc", "msg"}``."""
    problems: list[dict[str, Any]] = []
    return _mapped(template, delivery, [], problems), problems


def template_problems(template: Any) -> list[str]:
    """Return what is wrong with a template, whatever is delivered."""
    found: list[str] = []
    _look(template, found, 0)
    return found


def value_at(delivery: Any, pointer: str) -> Any:
    """Return the value at a pointer, ``MISSING`` if there is none."""
    for part in parts_of(pointer):
        if isinstance(delivery, dict) and part in delivery:
            delivery = delivery[part]
        elif isinstance(delivery, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(delivery):
            delivery = delivery[int(part[:9])]
        else:
            return MISSING
    return delivery


def pointer_problem(pointer: str) -> str:
    """Return why a text is no pointer, empty if it is one."""
    try:
        parts_of(pointer)
    except ValueError as error:
        return str(error)
    return ""


def suggested(schema: Any) -> Any:
    """Return a template for a workflow's input: each field from one of the same name, or its default."""
    names = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(names, dict):
        return {"$": ""}
    found: dict[str, dict[str, Any]] = {}
    for name, field in names.items():
        found[name] = {"$": f"/{name.replace('~', '~0').replace('/', '~1')}"}
        if isinstance(field, dict) and "default" in field:
            found[name]["default"] = field["default"]
    return found


def _mapped(template: Any, delivery: Any, place: list[Any], problems: list[dict[str, Any]]) -> Any:
    if isinstance(template, list):
        return [_mapped(one, delivery, [*place, n], problems) for n, one in enumerate(template)]
    if not isinstance(template, dict):
        return template
    if "$" not in template:
        return {name: _mapped(one, delivery, [*place, name], problems) for name, one in template.items()}
    found = value_at(delivery, str(template["$"]))
    if found is MISSING and "default" not in template:
        problems.append({"loc": place, "msg": f"The delivery has nothing at {template['$']}"})
        return None
    return template["default"] if found is MISSING else found


def _look(template: Any, found: list[str], level: int) -> None:
    if level > DEEPEST:
        found.append(f"At most {DEEPEST} levels")
    elif isinstance(template, list):
        for one in template:
            _look(one, found, level + 1)
    elif isinstance(template, dict) and "$" in template:
        if template.keys() - {"$", "default"}:
            found.append('Beside "$" there can only be "default"')
        text = template["$"]
        found.extend([why] if (why := pointer_problem(text) if isinstance(text, str) else '"$" is a text') else [])
    elif isinstance(template, dict):
        for one in template.values():
            _look(one, found, level + 1)

"""``{% load fields %}``: fields of forms that a page writes out itself."""

from __future__ import annotations

from typing import Any

from django import template

register = template.Library()


@register.inclusion_tag("components/text_field.html")
def text_field(field: str, label: str, value: Any, problem: str = "", **options: Any) -> dict[str, Any]:
    """Return a one-line field; its name is what follows the last hyphen of its id, ``field``.

    ``options``: ``help``, ``type``, ``most`` characters, ``least`` (a date), ``placeholder``, ``required``; ``plain``:
    the browser neither completes nor corrects it, ``mono``: in the type of code besides.
    """
    given = {"id": field, "name": field.rpartition("-")[2], "label": label, "value": value, "problem": problem}
    return given | options

"""The frozen, closed value object that all records are, and a dataclass that costs less where none is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self, TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
_set = object.__setattr__


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value_object(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator for dataclasses with slots that never change: the type checker refuses it, nothing else does.

    Python's own ``frozen`` sets each field by a call, which costs two to five times as much for each object that is
    made. For objects of which every step makes some.
    """
    return dataclass(slots=True, kw_only=kw_only)


class Record(BaseModel):
    """A frozen, closed value object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **values: Any) -> Self:
        """Return a record of values that are of the fields' types already: nothing is checked, converted or copied.

        For what this code itself has made or stored, at a quarter of the cost of a checked record. Every field without
        a default must be among ``values``, and no other name.
        """
        template, factories = _fields_of(cls)
        fields = {**template, **values}
        for name, make in factories:
            if name not in values:
                fields[name] = make()
        record = cls.__new__(cls)
        _set(record, "__dict__", fields)
        _set(record, "__pydantic_fields_set__", set(values))
        _set(record, "__pydantic_extra__", None)
        _set(record, "__pydantic_private__", None)
        return record


@cache
def _fields_of(kind: type[Record]) -> tuple[dict[str, Any], tuple[tuple[str, Any], ...]]:
    """Return a record's fields in their order with their defaults, and the factories of those that have one."""
    fields = kind.model_fields
    factories = ((name, field.default_factory) for name, field in fields.items() if field.default_factory is not None)
    return {name: None if field.is_required() else field.default for name, field in fields.items()}, tuple(factories)

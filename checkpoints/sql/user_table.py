"""Where statements find the people whom answers refer to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class UserTable:
    """The table of the project's user model, its key, and the column with a person's name; each as SQL writes it."""

    table: str = "auth_user"
    key: str = "id"
    name: str = "username"

    @property
    def join(self) -> str:
        """The join from an answer ``a`` to its author ``u``."""
        return f" LEFT JOIN {self.table} u ON u.{self.key}=a.by_id"

    @property
    def named(self) -> str:
        """The key of the person with a name."""
        return f"(SELECT {self.key} FROM {self.table} WHERE {self.name}=?)"  # noqa: S608, the names are the model's

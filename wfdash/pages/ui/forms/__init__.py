"""Forms from JSON Schema, built and read on the server."""

from __future__ import annotations

from wfdash.pages.ui.forms.form import BoundForm, FormError, FormView

__all__ = ["BoundForm", "FormError", "FormView"]

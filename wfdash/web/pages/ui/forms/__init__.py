"""Forms from JSON Schema, built and read on the server."""

from __future__ import annotations

from wfdash.web.pages.ui.forms.form import BoundForm, FormError, FormView

__all__ = ["BoundForm", "FormError", "FormView"]

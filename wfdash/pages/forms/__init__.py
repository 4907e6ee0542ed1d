"""Forms from JSON Schema, built and read on the server."""

from __future__ import annotations

from wfdash.pages.forms.form import BoundForm, Complaint, Form

__all__ = ["BoundForm", "Complaint", "Form"]

"""The dashboard inside a project that has its own middleware, sign-in, admin and error pages."""

from __future__ import annotations

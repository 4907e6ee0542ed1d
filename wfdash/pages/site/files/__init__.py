"""Files that browsers keep: style sheet, scripts, and what makes the dashboard an app on a phone."""

from __future__ import annotations

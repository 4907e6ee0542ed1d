"""What crosses the API, as plain pydantic models: the server answers with them, and the client reads them."""

from __future__ import annotations

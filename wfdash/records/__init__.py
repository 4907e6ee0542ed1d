"""What crosses the API, as plain pydantic models: the server answers with them, and the client reads them.

Queries return them. What only a page shows is a field of a subclass beside its query; the API sends the declared fields
only.
"""

from __future__ import annotations

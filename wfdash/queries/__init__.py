"""Every read, scoped by its viewer: look-up is authorisation, so rows the viewer may not see are ``NotFound``.

Lists read metadata only and cost a constant number of queries; each function says how many.
"""

from __future__ import annotations

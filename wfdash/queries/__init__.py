"""Every read, scoped by its viewer: look-up is authorisation, so rows the viewer may not see are ``NotFound``.

Lists read metadata only and cost a constant number of queries; each function says how many.

Folders and files are nouns. What several nouns share: ``search`` (the grammar of filters, qualifiers, orders with
cursors), ``history`` (a run's events, the tree of its checkpoints, what each step did; cached, so that an open page
reads only what is new), ``timemachine`` (what restoring, forking and migrating rest on), ``palette`` (the search over
everything), ``workers`` (which live and what they serve), ``consulting`` (a question to a worker, and its reply).
"""

from __future__ import annotations

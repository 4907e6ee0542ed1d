"""Actions: everything a person can do, each in one transaction. Pages and the API call these and contain no rules.

Objects are looked up through the ``Viewer``; what a person may not see does not exist for them. An action changes rows
by conditional updates, appends its event, makes the run due and publishes to its topics once the transaction commits.

Folders and files are nouns; ``common`` is what all need, ``pacing`` how often something may be done, ``retention``
removes what is old a little at a time, each run written to an archive before.
"""

from __future__ import annotations

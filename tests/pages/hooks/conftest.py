from __future__ import annotations

from tests.pages.account.conftest import ana as ana
from tests.pages.account.conftest import people as people

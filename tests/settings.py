"""Settings for tests: the real ones, with a database in a temporary directory and cheap password hashes.

``WFDASH_TEST_DATABASE=postgresql://...`` runs the Django tests on that server instead of SQLite.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

if "WFDASH_DATA" not in os.environ:
    os.environ["WFDASH_DATA"] = folder = tempfile.mkdtemp(prefix="wfdash-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
if "WFDASH_TEST_DATABASE" in os.environ:
    os.environ["WFDASH_DATABASE"] = os.environ["WFDASH_TEST_DATABASE"]

from tests.keys import AUDIT_KEY
from wfdash.settings import *  # noqa: F403
from wfdash.settings import DATA_DIR, DATABASES, INSTALLED_APPS, PROVIDER_APPS

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, because worker threads open connections of their own.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}

# Their tables are there; a test that signs in at a provider sets it.
INSTALLED_APPS += PROVIDER_APPS

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
WFDASH_AUDIT_KEY = AUDIT_KEY
WFDASH_EMBED = False
# A test that wants other processes to hear starts that.
WFDASH_SIGNALS = "off"
# Every test client loads the middleware again, and would look through all static files: a third of the pages' tests.
WHITENOISE_AUTOREFRESH = True
WFDASH_APPS = ["wfdash.examples"]
WFDASH_ASK_PEOPLE = False

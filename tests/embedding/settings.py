"""The project's settings: what it had before, and wfdash's two apps; and three settings for these tests.

With ``EMBEDDING_ALIAS`` runs and people are in a database of that name, and the shop's own tables in the default one.
"""

from __future__ import annotations

import os
from pathlib import Path

from checkpoints.sql.conninfo import settings_of

BASE_DIR = Path(os.environ["EMBEDDING_DATA"])
SECRET_KEY = "the project's own"
ALLOWED_HOSTS = ["localhost", "testserver", "127.0.0.1"]
ROOT_URLCONF = "tests.embedding.urls"
ASGI_APPLICATION = "tests.embedding.asgi.application"
AUTH_USER_MODEL = "shop.Person"
LOGIN_URL = "/login/"
INSTALLED_APPS = [
    "tests.embedding.shop",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "checkpoints",
    "wfdash",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [Path(__file__).parent / "templates"]}
]
if "EMBEDDING_ADMIN" in os.environ:
    # Django's admin, in which the project's people have no page.
    INSTALLED_APPS.append("django.contrib.admin")
    names = ("request", "auth", "messages")
    places = ("template.context_processors", "contrib.auth.context_processors", "contrib.messages.context_processors")
    used = [f"django.{place}.{name}" for place, name in zip(places, names, strict=True)]
    TEMPLATES[0]["OPTIONS"] = {"context_processors": used}
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL",
    },
}
DATABASES = {"default": SQLITE | {"NAME": BASE_DIR / "shop.sqlite3"}}
if alias := os.environ.get("EMBEDDING_ALIAS"):
    DATABASES[alias] = SQLITE | {"NAME": BASE_DIR / f"{alias}.sqlite3"}
    WFDASH_DATABASE_ALIAS = alias
    DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    if url := os.environ.get("EMBEDDING_POSTGRES"):
        # As many projects with PostgreSQL have it.
        DATABASES[alias] = settings_of(url) | {"ATOMIC_REQUESTS": True}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
WFDASH_UNDO = 0
WFDASH_EMBED = "EMBEDDING_SERVER" in os.environ
STATIC_URL = "/files/"

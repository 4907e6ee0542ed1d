"""Settings. Everything a deployment may change is a ``WFDASH_*`` environment variable: docs/configuration.md."""

from __future__ import annotations

import logging
import os
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote

import django

from wfdash.installation.defaults import logging_settings, read_settings
from wfdash.installation.environment import (
    address_parts,
    hints_of,
    read_database,
    read_secret_files,
    signals_of,
)
from wfdash.installation.location import data_dir, folder_of, keep_private, make_private, static_version
from wfdash.installation.provider import read_provider
from wfdash.installation.workflow_sources import use_folder

KEY_REPLACED = (
    "{path} was missing beside a database, so a new secret key was made. Put the former one back if it is not lost:"
    " without it everyone has to sign in again, links in mails end, runs of Agent Framework that wait are refused"
    " (docs/agent-framework.md), and unless WFDASH_AUDIT_KEY is set, nothing proves"
    " earlier entries of the audit (docs/audit.md, The key)"
)
SQLITE_FILES = ("wfdash.sqlite3", "wfdash.sqlite3-wal", "wfdash.sqlite3-shm")
read_secret_files(os.environ)
BASE_DIR = Path(__file__).resolve().parent.parent


def read_secret(folder: Path) -> str:
    """Return the installation's secret key, created on first use and readable only by its owner."""
    if "WFDASH_SECRET_KEY" in os.environ:
        return os.environ["WFDASH_SECRET_KEY"]
    path = folder / "secret_key"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        if (folder / "wfdash.sqlite3").exists():
            sys.stderr.write(KEY_REPLACED.format(path=path) + "\n")
    except FileExistsError:
        pass
    return path.read_text().strip()


def django_apps(names: list[str]) -> list[str]:
    """Return which of these packages are Django apps: they have models, migrations or a configuration."""
    use_folder(Path.cwd(), last=True)
    return [name for name in names if _is_app(name)]


def _is_app(name: str) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False  # An error in it is reported among the workflows, and affects nothing else.
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
    return any(
        (folder / part).exists() for folder in folders for part in ("models.py", "models", "migrations", "apps.py")
    )


def mail(url: str) -> dict[str, Any]:
    """Return Django's mail settings for an address, as its version names them; without one, mail is discarded."""
    parts = address_parts("WFDASH_MAIL", url)
    name = "dummy" if not url else "console" if parts.scheme == "console" else "smtp"
    options = mail_options(parts) if name == "smtp" else {}
    backend = f"django.core.mail.backends.{name}.EmailBackend"
    if django.VERSION >= (6, 1):
        return {"MAILERS": {"default": {"BACKEND": backend, "OPTIONS": options}}}
    users = {"username": "EMAIL_HOST_USER", "password": "EMAIL_HOST_PASSWORD"}
    named = {users.get(key, f"EMAIL_{key.upper()}"): value for key, value in options.items()}
    return {"EMAIL_BACKEND": backend, **named}


def mail_options(parts: SplitResult) -> dict[str, Any]:
    """Return where mail is sent and how."""
    if parts.scheme not in {"smtp", "smtps"}:
        raise ValueError("WFDASH_MAIL must be smtp://, smtps:// or console:; leave it empty for no mail")
    secure = parts.scheme == "smtps"
    return {
        "host": parts.hostname or "localhost",
        "port": parts.port or (465 if secure else 587 if parts.username else 25),
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_ssl": secure,
        "use_tls": not secure and bool(parts.username),
        "timeout": 20,
    }


given = read_settings(os.environ)
globals().update(given)
DATA_DIR = data_dir(os.environ).resolve()
make_private(DATA_DIR)
WFDASH_DATA_DIR = DATA_DIR
keep_private(*(DATA_DIR / name for name in ("secret_key", "push_key", "worker.lock", *SQLITE_FILES)))

SECRET_KEY = read_secret(DATA_DIR)
SECRET_KEY_FALLBACKS = given["WFDASH_SECRET_KEY_FALLBACKS"]
DEBUG = given["WFDASH_DEBUG"]
ALLOWED_HOSTS = given["WFDASH_HOSTS"]
CSRF_TRUSTED_ORIGINS = given["WFDASH_ORIGINS"]
ROOT_URLCONF = "wfdash.web.pages.site.project_urls"
ASGI_APPLICATION = "wfdash.asgi.application"

provider, problems = read_provider(os.environ)
WFDASH_OIDC = provider
WFDASH_OIDC_PROBLEMS = problems
PROVIDER_APPS = ["allauth.socialaccount"]

INSTALLED_APPS = [
    "wfdash",
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "checkpoints",
    "checkpoints.langgraph",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    *(PROVIDER_APPS if WFDASH_OIDC else ()),
    *django_apps(given["WFDASH_APPS"]),
]

MIDDLEWARE = [
    "wfdash.web.pages.site.error_pages.SecurityHeaders",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "wfdash.access.signin.sessions.SignedInUser",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wfdash.web.pages.site.decorators.LocalTime",
    "wfdash.web.pages.site.error_pages.ErrorPages",
]

# For the admin. Pages and mails are drawn by an engine of their own: notifications.rendering.
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [folder_of("templates/standalone")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": read_database(DATA_DIR, os.environ) | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}}
WFDASH_HINTS = hints_of(
    given["WFDASH_HINTS"], on_postgres=bool(os.environ.get("WFDASH_DATABASE")), broker=given["WFDASH_BROKER"]
)
if WFDASH_HINTS == "procrastinate":
    INSTALLED_APPS.append("procrastinate.contrib.django")
    # It would import the module tasks of every app, which may be another queue's.
    PROCRASTINATE_AUTODISCOVER_MODULE_NAME = ""
WFDASH_SIGNALS = signals_of(given["WFDASH_SIGNALS"], on_postgres=bool(os.environ.get("WFDASH_DATABASE")))

DEFAULT_FROM_EMAIL = given["WFDASH_MAIL_FROM"]
globals().update(mail(given["WFDASH_MAIL"]))

AUTHENTICATION_BACKENDS = ["wfdash.access.signin.backend.PasswordBackend"]
# Argon2 for new passwords; other hashes are replaced when their owner signs in.
PASSWORD_HASHERS = [
    f"django.contrib.auth.hashers.{name}PasswordHasher"
    for name in ("Argon2", "PBKDF2", "PBKDF2SHA1", "BCryptSHA256", "Scrypt")
]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Of allauth passkeys and the provider's conversation are used, and none of its pages or counters.
MFA_ADAPTER = "wfdash.access.signin.passkeys.Adapter"
WFDASH_SIGN_IN = True
LOGIN_URL = "wfdash:sign-in"
LOGIN_REDIRECT_URL = "wfdash:inbox"
LOGOUT_REDIRECT_URL = "wfdash:sign-in"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATICFILES_DIRS = [folder_of("static")]
STATIC_VERSION = static_version(STATICFILES_DIRS)
STATIC_URL = f"static/{STATIC_VERSION}/"
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir(exist_ok=True)
WHITENOISE_USE_FINDERS = True
# Another version has another address: browsers never ask for the same file twice.
WHITENOISE_IMMUTABLE_FILE_TEST = ""
WHITENOISE_ALLOW_ALL_ORIGINS = False

SESSION_ENGINE = "wfdash.access.signin.sessions"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "wfdash.web.pages.site.error_pages.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
WFDASH_KNOWN_COOKIE = "wfdash_known"
if given["WFDASH_HTTPS"]:
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    # With this prefix browsers accept them only from this host, and only by HTTPS.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"
    WFDASH_KNOWN_COOKIE = "__Host-wfdash_known"
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^livez$", "^readyz$", "^health$", "^metrics$"]
    SECURE_HSTS_SECONDS = 30 * 86400
    # Other hosts of the same domain, and browsers' preload lists, are the domain owner's decision.
    # Where no server for mails is named, none is sent on purpose.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "mail.E001"]

WFDASH_MAX_BODY = 12_000_000
# A file that was posted once comes back as text with the rest of its form, a third larger than it is.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_000_000


LOGGING = logging_settings(given["WFDASH_LOG"], given["WFDASH_LOG_LEVEL_SERVER"] or logging.CRITICAL + 1)

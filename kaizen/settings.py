"""Django settings: the only reader of the environment.

Every value is typed here once. Unsafe production values refuse to start with a sentence that says
what to set.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import django_stubs_ext
import environ
from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

KAIZEN_HOME = Path(env.str("KAIZEN_HOME", default=str(BASE_DIR / ".kaizen")))
DEBUG = env.bool("KAIZEN_DEBUG", default=False)

# Commands that neither serve nor store anything may run without secrets (lint, schema, lock files).
_SECRETLESS = {
    "makemigrations",
    "check",
    "spectacular",
    "up",
    "doctor",
    "help",
    "collectstatic",
    "makemessages",
}
_walks_demo = sys.argv[1:2] == ["demo"] and not any("load" in word for word in sys.argv[2:])
_may_lack_secrets = _walks_demo or (len(sys.argv) > 1 and sys.argv[1] in _SECRETLESS)


def _secret(name: str, *, shortest: int) -> str:
    value = env.str(name, default="")
    if len(value) >= shortest:
        return value
    if _may_lack_secrets:
        return "x" * shortest
    raise ImproperlyConfigured(
        f"{name} must be set to at least {shortest} characters. "
        "`make up` generates it; elsewhere set it in the environment."
    )


SECRET_KEY = _secret("KAIZEN_SECRET_KEY", shortest=32)
KAIZEN_RUNTIME_TOKEN = env.str("KAIZEN_RUNTIME_TOKEN", default="")
KAIZEN_FIELD_KEYS: list[str] = env.list("KAIZEN_FIELD_KEYS", default=[])
if not KAIZEN_FIELD_KEYS and not _may_lack_secrets:
    raise ImproperlyConfigured(
        "KAIZEN_FIELD_KEYS must hold at least one Fernet key, newest first. `make up` makes one."
    )

ALLOWED_HOSTS: list[str] = env.list("KAIZEN_HOSTS", default=["localhost", "127.0.0.1"])
KAIZEN_SECURE = env.bool("KAIZEN_SECURE", default=False)
CSRF_TRUSTED_ORIGINS: list[str] = env.list("KAIZEN_ORIGINS", default=[])
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if KAIZEN_SECURE else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = KAIZEN_SECURE
SESSION_COOKIE_AGE = 8 * 60 * 60
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if KAIZEN_SECURE else 0
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "daphne",
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "guardian",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "kaizen.apps.KaizenConfig",
    "audit",
    "accounts",
    "retrieval",
    "agents",
    "conversations",
    "tasks",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "accounts.middleware.OrganizationMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.AuthorityMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "accounts.middleware.ErrorMiddleware",
]

ROOT_URLCONF = "kaizen.urls"
ASGI_APPLICATION = "kaizen.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "accounts.context.frame",
            ],
        },
    }
]

# --- Stores


KAIZEN_DATABASE_THREADS = env.int("KAIZEN_DATABASE_THREADS", default=8)


def _database(url: str, *, pooled: bool) -> dict[str, Any]:
    database: dict[str, Any] = dict(env.db_url_config(url))
    database["ENGINE"] = "django.db.backends.postgresql"
    database["CONN_MAX_AGE"] = 0
    database.setdefault("OPTIONS", {})
    if pooled:
        # One more than the threads, so that the event loop's own rare query never waits for a
        # thread.
        database["OPTIONS"]["pool"] = {
            "min_size": 1,
            "max_size": KAIZEN_DATABASE_THREADS + 4,
            "timeout": 10,
        }
    return database


DATABASE_URL = env.str("DATABASE_URL", default="")
DATABASE_OWNER_URL = env.str("DATABASE_OWNER_URL", default="")
_unset = "postgresql://unset@127.0.0.1:1/unset"
DATABASES = {
    "default": _database(
        DATABASE_URL or _unset, pooled=env.bool("KAIZEN_DATABASE_POOL", default=False)
    )
}
if DATABASE_OWNER_URL:
    # Present only where `prepare_database` runs; no serving process is started with it.
    DATABASES["owner"] = _database(DATABASE_OWNER_URL, pooled=False)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

VALKEY_URL = env.str("VALKEY_URL", default="redis://127.0.0.1:6379/0")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": VALKEY_URL,
        "KEY_PREFIX": "kaizen",
    }
}

STORAGE_URL = env.str("STORAGE_URL", default=f"file://{KAIZEN_HOME / 'storage'}")


def _storage(url: str) -> dict[str, Any]:
    scheme, _, rest = url.partition("://")
    if scheme == "file":
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": rest, "file_permissions_mode": 0o600},
        }
    if scheme == "s3":
        bucket, _, prefix = rest.partition("/")
        return {
            "BACKEND": "storages.backends.s3.S3Storage",
            "OPTIONS": {"bucket_name": bucket, "location": prefix, "default_acl": None},
        }
    raise ImproperlyConfigured("STORAGE_URL must start with file:// or s3://.")


STORAGES = {
    "default": _storage(STORAGE_URL),
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "kaizen" / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
KAIZEN_UPLOAD_LIMIT = 50 * 1024 * 1024
KAIZEN_OCR: str = env.str("KAIZEN_OCR", default="")
KAIZEN_FOLDER_ROOTS: tuple[str, ...] = tuple(env.list("KAIZEN_FOLDER_ROOTS", default=[]))
EGRESS_ALLOW: tuple[str, ...] = tuple(env.list("KAIZEN_EGRESS_ALLOW", default=[]))
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

# --- Identity


AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["accounts.auth.EmailBackend"]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
SILENCED_SYSTEM_CHECKS = [
    "auth.W004",  # The e-mail is unique without regard to case, by a constraint over Lower(email).
    "guardian.W001",  # guardian stores grants and is never asked, so its backend isn't installed.
]

# --- Content security


CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "EXCLUDE_URL_PREFIXES": [],
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    },
}
KAIZEN_ADMIN_CSP: dict[str, Any] = {
    "default-src": [SELF],
    "script-src": [SELF, NONCE, "'unsafe-eval'"],
    "style-src": [SELF, "'unsafe-inline'"],
    "img-src": [SELF, "data:"],
    "object-src": [NONE],
    "base-uri": [NONE],
    "frame-ancestors": [NONE],
    "form-action": [SELF],
}

# --- API

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.auth.ApiKeyAuthentication",
        "accounts.auth.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["accounts.auth.HasAuthority"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [
        "rest_framework.parsers.JSONParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "kaizen.kernel.api.KeysetPagination",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "kaizen.kernel.api.problem_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Kaizen API",
    "DESCRIPTION": (
        "Search, talk and let agents work, within what you may see. "
        "All paths stand under /o/<organisation>/."
    ),
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SERVE_PERMISSIONS": ["accounts.auth.HasAuthority"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {},
}

# --- Language and time


LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
LOCALE_PATHS = [BASE_DIR / "kaizen" / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# --- Jobs


CELERY_BROKER_URL = VALKEY_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 900,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
}
CELERY_TIMEZONE = "UTC"
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1}

# --- Runs


KAIZEN_LEASE_SECONDS = env.float("KAIZEN_LEASE_SECONDS", default=30.0)
KAIZEN_POLL_SECONDS = env.float("KAIZEN_POLL_SECONDS", default=2.0)

# --- Admin


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Kaizen",
    "SITE_HEADER": "Kaizen",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "8px",
    # The web app's tokens (kaizen/static/css/tokens.css) as the theme wants them.
    "COLORS": {
        "base": {
            "50": "#faf9f5",
            "100": "#f3f1ea",
            "200": "#e2ded4",
            "300": "#cbc5b8",
            "400": "#9f998d",
            "500": "#69645a",
            "600": "#58534a",
            "700": "#45413a",
            "800": "#2f2d28",
            "900": "#1f1e1b",
            "950": "#151412",
        },
        "primary": {
            "50": "#eff6f7",
            "100": "#e2eef0",
            "200": "#c3dde2",
            "300": "#a7dae5",
            "400": "#86c6d5",
            "500": "#4d9db2",
            "600": "#17586a",
            "700": "#124a5a",
            "800": "#0f4453",
            "900": "#1d343a",
            "950": "#0c2127",
        },
        "font": {
            "subtle-light": "var(--color-base-500)",
            "subtle-dark": "var(--color-base-400)",
            "default-light": "var(--color-base-600)",
            "default-dark": "var(--color-base-300)",
            "important-light": "var(--color-base-900)",
            "important-dark": "var(--color-base-100)",
        },
    },
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: "/static/favicon.svg"}
    ],
    "SIDEBAR": {"navigation": "kaizen.kernel.admin_site.navigation"},
    "ACCOUNT": {"navigation": [{"title": "Organisations", "link": "/organizations/"}]},
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": env.str("KAIZEN_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.channels.server": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "anthropic": {"level": "WARNING"},
    },
}

"""The settings of an installation. Every one that an operator may choose comes from an environment
variable, is checked when it is read, and is described in `docs/configuration.md`; `docs/check.py` compares
the two.

What operators change while Signalbox runs (limits, policies, retention) is not here but in the database.
"""

from pathlib import Path

from governance.project.settings import connections
from governance.project.settings import environment as env
from governance.project.settings.admin_theme import UNFOLD as UNFOLD
from governance.project.settings.pins import check_pins
from governance.project.settings.rest import REST_FRAMEWORK as REST_FRAMEWORK
from governance.project.settings.rest import SPECTACULAR_SETTINGS as SPECTACULAR_SETTINGS

BASE_DIR = Path(__file__).resolve().parents[3]
DATA_DIR = env.envpath("SIGNALBOX_DATA_DIR", default=BASE_DIR / "data")

# --- Secrets
# ----------------------------------------------------------------------------------------------------

SECRET_KEY = env.envsecretkey("SIGNALBOX_SECRET_KEY")
SIGNALBOX_ENCRYPTION_KEYS = env.envkeyring("SIGNALBOX_ENCRYPTION_KEYS")

# --- Who may talk to us, and how
# --------------------------------------------------------------------------------

DEBUG = env.envbool("SIGNALBOX_DEBUG", default=False)
ALLOWED_HOSTS = list(env.envlist("SIGNALBOX_ALLOWED_HOSTS", default=("localhost", "127.0.0.1", "[::1]")))
CSRF_TRUSTED_ORIGINS = list(env.envlist("SIGNALBOX_CSRF_TRUSTED_ORIGINS"))

# Browsers send a secure cookie over HTTPS only, so these settings and plain HTTP exclude each other.
_HTTPS_ONLY = not (DEBUG or env.envbool("SIGNALBOX_INSECURE_HTTP", default=False))
SESSION_COOKIE_SECURE = _HTTPS_ONLY
CSRF_COOKIE_SECURE = _HTTPS_ONLY
SECURE_SSL_REDIRECT = _HTTPS_ONLY
SECURE_HSTS_SECONDS = (
    env.envint("SIGNALBOX_HSTS_SECONDS", default=86_400, minimum=0, maximum=63_072_000) if _HTTPS_ONLY else 0
)
# A header that speaks for every subdomain, or for a browser's built-in list, is not ours to send unasked.
SECURE_HSTS_INCLUDE_SUBDOMAINS = False
SECURE_HSTS_PRELOAD = False
# models.W040: an index that covers more columns on PostgreSQL than on SQLite is meant to.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "models.W040"]
SESSION_COOKIE_AGE = 12 * 60 * 60
LOGIN_REDIRECT_URL = "admin:index"  # the theme's form does not say where to go
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- Where calls may go
# -----------------------------------------------------------------------------------------

SIGNALBOX_OUTBOUND_ALLOW = env.envaddresses("SIGNALBOX_OUTBOUND_ALLOW")

# --- Settings that nobody may change in the admin
# ----------------------------------------------------------------------------------

SIGNALBOX_SETTINGS = check_pins(name="SIGNALBOX_SETTINGS", values=env.envobject("SIGNALBOX_SETTINGS"))

# --- The pieces
# -------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",  # the theme's templates, which go before Django's; the site is ours
    "governance.project.apps.SignalboxAdminConfig",  # django.contrib.admin with our site
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",  # the files of the page that shows the API's description
    "routing",
    "telemetry",
    "budgets",
    "governance",
]
MIDDLEWARE = [
    "governance.project.http.correlation.correlate",
    "governance.project.http.health.answer_probes",
    "django.middleware.security.SecurityMiddleware",
    "governance.project.http.headers.add_security_headers",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "governance.project.urls"
ASGI_APPLICATION = "governance.project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Served by `governance.project.http.static_files` from where they lie. Collecting them is for installations
# whose own front server answers /static/.
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]

LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "governance.project.formats"


# --- Tables
# -----------------------------------------------------------------------------------------------------

_POSTGRESQL = env.envpostgresql("DATABASE_URL")
if _POSTGRESQL is None:
    # SQLite makes its file but not the folder around it.
    DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "signalbox.sqlite3",
            "CONN_MAX_AGE": 600,
            "OPTIONS": {
                # Take the write lock at the start: a transaction that reads first and writes later would
                # otherwise fail at once, time-out or not, when another one wrote in between.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
            # A file: the in-memory database of the test runner raises "table is locked" without waiting.
            "TEST": {"NAME": DATA_DIR / "test.sqlite3"},
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": _POSTGRESQL.name,
            "HOST": _POSTGRESQL.host,
            "PORT": "" if _POSTGRESQL.port is None else str(_POSTGRESQL.port),
            "USER": _POSTGRESQL.user,
            "PASSWORD": _POSTGRESQL.password,
            # Persistent connections rather than psycopg's pool: with Celery's prefork the pool is reopened
            # for every task, which costs two to three times the throughput.
            "CONN_MAX_AGE": 600,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {**connections.POSTGRESQL, **dict(_POSTGRESQL.parameters)},
        }
    }

# --- What processes share
# -----------------------------------------------------------------------------------------------------
# In Redis where there is one, else in a table (`governance.shared_state`). Django's caches are used by nothing of
# ours: none of them can compare and set.

REDIS_URL = env.envredis("REDIS_URL")

# --- Tasks
# ------------------------------------------------------------------------------------------------------
# With Redis the broker and the results are there. Without it both are folders: enough for one machine and a
# handful of calls. What a message may hold is in SECURITY.md.

_TASKS = DATA_DIR / "tasks"
SIGNALBOX_TASK_FOLDERS = (
    {} if REDIS_URL is not None else {name: _TASKS / name for name in ("messages", "control", "results")}
)
CELERY_BROKER_URL = (
    "filesystem://localhost"  # a name that nothing is asked of
    if REDIS_URL is None
    else connections.celery_url(REDIS_URL)
)
CELERY_BROKER_TRANSPORT = None if REDIS_URL is not None else "governance.project.folder_broker:Transport"
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        # Shorter than Celery's hour: the message of a call is acknowledged as soon as it is sealed in its row.
        "visibility_timeout": 600,
        "socket_connect_timeout": 2,
        "socket_timeout": 10,
        "socket_keepalive": True,
    }
    if REDIS_URL is not None
    else {
        "data_folder_in": str(SIGNALBOX_TASK_FOLDERS["messages"]),
        "data_folder_out": str(SIGNALBOX_TASK_FOLDERS["messages"]),
        "control_folder": str(SIGNALBOX_TASK_FOLDERS["control"]),
        "polling_interval": 0.1,  # the default of a second makes it ten times as slow
    }
)
CELERY_RESULT_BACKEND = (
    SIGNALBOX_TASK_FOLDERS["results"].as_uri() if REDIS_URL is None else connections.celery_url(REDIS_URL)
)
CELERY_REDIS_SOCKET_CONNECT_TIMEOUT = 2.0
CELERY_REDIS_SOCKET_TIMEOUT = 10.0  # of Celery's two minutes a worker would be held up by each result
CELERY_RESULT_EXPIRES = 3600
CELERY_RESULT_EXTENDED = False  # a result shall not hold the arguments of its task
CELERY_TASK_DEFAULT_QUEUE = "signalbox"  # other programs may use the same Redis
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2, "interval_max": 0.5}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a call takes seconds; one that waits in a worker waits for that worker
CELERY_WORKER_SEND_TASK_EVENTS = False  # events hold the arguments of tasks
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 30.0  # what a call under way is given after SIGQUIT; SIGTERM waits for all of it
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"  # the schedule is fixed, so there is nothing to remember on disk
CELERY_TIMEZONE = "UTC"

# --- Logs
# -------------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "trace": {"()": "governance.project.logs.TraceFilter"},
        "server_access": {"()": "governance.project.logs.ServerAccess"},
        "without_messages": {"()": "governance.project.logs.WithoutMessages"},
    },
    "formatters": {
        "text": {"()": "governance.project.logs.LineFormatter"},
        "json": {"()": "governance.project.logs.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.envchoice("SIGNALBOX_LOG_FORMAT", default="text", choices=("text", "json")),
            "filters": ["trace"],
        },
    },
    "root": {
        "handlers": ["stderr"],
        "level": env.envchoice(
            "SIGNALBOX_LOG_LEVEL", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        ),
    },
    # Django's default configuration mails errors to administrators and prints to the console only in DEBUG.
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.server": {"handlers": [], "propagate": True},
        # Whoever scans the network asks under every name. That it was refused is in the access log, and nobody's error.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # One line for every request to a provider says nothing that the call's row does not, and costs time.
        "httpx": {"level": "WARNING"},
        # What Celery says of every task it got and did: arguments and return values, which may be prompts and answers.
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.pool": {"level": "INFO"},
        "celery.worker.consumer.consumer": {"filters": ["without_messages"]},
        "kombu": {"level": "INFO"},
        "amqp": {"level": "INFO"},
        # The server has configured its own by now; its lines shall look like all the others, and be as many.
        "uvicorn": {"level": "NOTSET", "handlers": [], "propagate": True},
        "uvicorn.access": {"level": "NOTSET", "handlers": [], "filters": ["server_access"], "propagate": True},
    },
}

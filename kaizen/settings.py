"""What does Kaizen run with? Everything that differs between machines is in the environment."""

from datetime import timedelta
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

# Imported here so that every process that has settings rings bells through the same Celery app.
import kaizen.celery  # noqa: F401
from apps.domain.tooling.features import FEATURES
from kaizen import log
from kaizen.environment import Environment, database, redis_url
from kaizen.look import ADMIN_LOOK

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()
env.demand()

# --- where this deployment is
SECRET_KEY = env.key("KAIZEN_SECRET_KEY")
SECRET_KEY_FALLBACKS = env.listing("KAIZEN_SECRET_KEY_FALLBACKS")
KAIZEN_AUDIT_KEY = env.key("KAIZEN_AUDIT_KEY")
# 0 keeps every month for ever.
KAIZEN_AUDIT_KEEP_MONTHS = env.number("KAIZEN_AUDIT_KEEP_MONTHS", 0)
# 0 keeps the workspaces of open rooms for ever.
KAIZEN_WORKSPACE_DAYS = env.number("KAIZEN_WORKSPACE_DAYS", 90)
KAIZEN_AUDIT_HEAD_URL = env.address("KAIZEN_AUDIT_HEAD_URL")
KAIZEN_STATE_DIR = Path(env.text("KAIZEN_STATE_DIR"))
KAIZEN_SANDBOXD_SOCKET = env.text("KAIZEN_SANDBOXD_SOCKET")
if not KAIZEN_STATE_DIR.is_absolute():
    raise ImproperlyConfigured("KAIZEN_STATE_DIR must be an absolute path.")
if SECRET_KEY == KAIZEN_AUDIT_KEY:
    raise ImproperlyConfigured("KAIZEN_AUDIT_KEY must differ from KAIZEN_SECRET_KEY.")

DEBUG = env.flag("KAIZEN_DEBUG")
INSECURE_HTTP = env.flag("KAIZEN_INSECURE_HTTP")
ALLOWED_HOSTS = env.listing("KAIZEN_ALLOWED_HOSTS")
KAIZEN_ORIGINS = env.listing("KAIZEN_ORIGINS") or [f"https://{host}" for host in ALLOWED_HOSTS]
CSRF_TRUSTED_ORIGINS = KAIZEN_ORIGINS

# --- the model that agents speak through
KAIZEN_MODEL_URL = env.text("KAIZEN_MODEL_URL")
KAIZEN_MODEL_NAME = env.text("KAIZEN_MODEL_NAME")
KAIZEN_MODEL_KEY = env.text("KAIZEN_MODEL_KEY")
KAIZEN_FEATURES_OFF = env.words("KAIZEN_FEATURES_OFF", FEATURES)
KAIZEN_REHEARSAL = env.flag("KAIZEN_REHEARSAL")

# --- what may be reached outside
KAIZEN_PACKAGE_NETWORKS = env.words(
    "KAIZEN_PACKAGE_NETWORKS", ("none", "allowlist", "unrestricted")
) or frozenset({"none", "allowlist"})
KAIZEN_EGRESS_EXEMPT = env.blocks("KAIZEN_EGRESS_EXEMPT")

# --- what no model reads, besides the hosts of our own stores, sockets and nodes
KAIZEN_INTERNAL_HOSTS = env.hosts("KAIZEN_INTERNAL_HOSTS")

# --- how far a turn goes
KAIZEN_CONTEXT_TOKENS = env.number("KAIZEN_CONTEXT_TOKENS", 96_000, least=2_000)
KAIZEN_TURN_INACTIVITY_S = env.number("KAIZEN_TURN_INACTIVITY_S", 180, least=5)
KAIZEN_TURN_BUDGET_S = env.number("KAIZEN_TURN_BUDGET_S", 3_600, least=10)
KAIZEN_PROMPT_PROFILE = env.choice("KAIZEN_PROMPT_PROFILE", ("full", "brief"))
KAIZEN_DB_POOL = env.number("KAIZEN_DB_POOL", 8, least=1)
AGENT_LOOP_MAX_PARALLEL_TOOLS = env.number("AGENT_LOOP_MAX_PARALLEL_TOOLS", 1, least=1)

# --- what packages need of other packages
PKG_RUNNER_OFFLINE = env.flag("PKG_RUNNER_OFFLINE")
PKG_RUNNER_TIMEOUT_SECONDS = env.number("PKG_RUNNER_TIMEOUT_SECONDS", 240, least=1)
KAIZEN_NPM_REGISTRY = env.address("KAIZEN_NPM_REGISTRY")
KAIZEN_DEPENDENCIES_DIR = Path(
    env.text("KAIZEN_DEPENDENCIES_DIR") or KAIZEN_STATE_DIR / "dependencies"
)
KAIZEN_BUNDLED_DEPENDENCIES = env.text("KAIZEN_BUNDLED_DEPENDENCIES")

# --- who may speak with the token of another runtime's run: its holder, or a key's holder only
KAIZEN_BOUND_RUN_TOKENS = env.flag("KAIZEN_BOUND_RUN_TOKENS")

# --- what may be measured from outside; without a token only administrators see it
KAIZEN_METRICS_TOKEN = env.secret("KAIZEN_METRICS_TOKEN")

# --- the house
INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_structlog",
    "guardian",
    "apps.core",
    "apps.accounts",
    "apps.audit",
    "apps.rooms",
    "apps.agents",
    "apps.packages",
    "apps.runs",
    "apps.sandbox",
    "apps.artifacts",
    "apps.automations",
    "apps.approvals",
    "apps.grants",
    "apps.quotas",
    "apps.proposals",
    "apps.broker",
    "apps.library",
    "apps.tools",
    "apps.boundary",
    "apps.turns",
    "apps.web",
]
MIDDLEWARE = [
    "kaizen.log.RequestLogMiddleware",
    "kaizen.headers.SafeHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "kaizen.urls"
ASGI_APPLICATION = "kaizen.asgi.application"
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
                "apps.web.context.shell",
            ],
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- stores
DATABASES = {"default": database(env.text("DATABASE_URL"), pool_size=KAIZEN_DB_POOL)}
REDIS_URL = redis_url(env.text("REDIS_URL"))
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "kaizen",
        # Short, so that an absent store costs a request seconds and not minutes.
        "OPTIONS": {"socket_connect_timeout": 2, "socket_timeout": 5},
    }
}

# --- who is asking
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_MONKEY_PATCH_GROUP = False
GUARDIAN_RAISE_403 = True
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/rooms/"
LOGOUT_REDIRECT_URL = "/sign-in/"
SESSION_COOKIE_AGE = 14 * 24 * 3600
REST_KNOX = {
    "TOKEN_TTL": timedelta(days=30),
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_LIMIT_PER_USER": 20,
}

# --- the API
REST_FRAMEWORK = {
    # Tokens first: their challenge makes a missing sign-in a 401.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.api.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["apps.core.api.throttles.MemberThrottle"],
    "DEFAULT_PARSER_CLASSES": ["apps.core.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "apps.core.api.pagination.CursorPage",
    "EXCEPTION_HANDLER": "apps.core.api.problems.problem_handler",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
KAIZEN_API_PER_MINUTE = env.number("KAIZEN_API_PER_MINUTE", 1200, least=1)
SPECTACULAR_SETTINGS = {
    "TITLE": "Kaizen",
    "DESCRIPTION": "A self-hosted boundary between AI agents and everything they may touch.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "apps.core.api.schema.describe_problems",
    ],
    "ENUM_NAME_OVERRIDES": {
        "RunState": "apps.runs.models.Run.State",
        "RunOutcome": "apps.runs.models.Run.Outcome",
        "CallState": "apps.boundary.api.serializers.CALL_STATES",
        "CallOutcome": "apps.boundary.api.serializers.OUTCOMES",
        "ApprovalState": "apps.approvals.models.ApprovalRequest.State",
        "ProposalState": "apps.proposals.models.PackageProposal.State",
        "ProposalTestState": "apps.proposals.models.ProposalTest.State",
        "AgentRole": "apps.agents.api.serializers.AGENT_ROLES",
        "ArtifactRole": "apps.artifacts.api.serializers.ARTIFACT_ROLES",
        "ParticipantRole": "apps.rooms.models.Participant.Role",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

# --- the bell: a message only says "look now"; the row that it points at is the queue
CELERY_BROKER_URL = REDIS_URL
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_ERRORS_EVEN_IF_IGNORED = False
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_QUEUES = [
    # Each with its own exchange and key: by default all three would receive every message.
    Queue(name, Exchange(name, type="direct"), routing_key=name)
    for name in ("turns", "calls", "sweeps")
]
CELERY_TASK_DEFAULT_QUEUE = "calls"
CELERY_TASK_ROUTES = {
    "turns.*": {"queue": "turns"},
    "boundary.*": {"queue": "calls"},
    "proposals.*": {"queue": "calls"},
    "sandbox.*": {"queue": "calls"},
    "core.*": {"queue": "sweeps"},
    "audit.*": {"queue": "sweeps"},
    "approvals.*": {"queue": "sweeps"},
    "quotas.*": {"queue": "sweeps"},
    "runs.*": {"queue": "sweeps"},
    "automations.*": {"queue": "sweeps"},
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Publishing fails fast: the sweeps ring again whatever was not heard.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.1,
    "global_keyprefix": "kaizen:",
}
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    name: {"task": name, "schedule": seconds, "options": {"expires": seconds}}
    for name, seconds in {
        "core.sweep": 5.0,
        "audit.seal": 10.0,
        "audit.ensure_months": 3600.0,
        "audit.retain": 3600.0,
        "core.collect": 3600.0,
        "quotas.forget_old": 24 * 3600.0,
        "proposals.collect_dependencies": 3600.0,
        "sandbox.forget_workspaces": 3600.0,
    }.items()
}

# --- the way in: HTTPS everywhere, except on loopback where `up` serves plain HTTP
SECURE_SSL_REDIRECT = not INSECURE_HTTP
SESSION_COOKIE_SECURE = not INSECURE_HTTP
CSRF_COOKIE_SECURE = not INSECURE_HTTP
SECURE_HSTS_SECONDS = 0 if INSECURE_HTTP else 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = not INSECURE_HTTP
SECURE_HSTS_PRELOAD = not INSECURE_HTTP
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"

# --- files that pages need
STATIC_URL = "static/"
STATICFILES_DIRS = [path for path in [BASE_DIR / "static"] if path.is_dir()]
STATIC_ROOT = env.text("KAIZEN_STATIC_ROOT") or None
SERVESTATIC_USE_FINDERS = STATIC_ROOT is None

# --- language, time and words in the log
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "kaizen.formats"
UNFOLD = ADMIN_LOOK
log.connect()
LOGGING = log.configuration(
    console=env.flag("KAIZEN_LOG_CONSOLE"), level=env.text("KAIZEN_LOG_LEVEL", "INFO").upper()
)
DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False
DJANGO_STRUCTLOG_STATUS_START_LOG_LEVEL = 10
DJANGO_STRUCTLOG_CELERY_DEFAULT_LOG_LEVEL = 10

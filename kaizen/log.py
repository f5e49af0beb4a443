"""How is a log line made, and how does one correlation id reach every line of one story?"""

import functools
import logging
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from django.http import HttpRequest
from django_structlog import signals
from django_structlog.middlewares import RequestMiddleware

_SECRET = re.compile(
    r"pass(word|wd)?$|secret|token$|api_?key|authorization|cookie|credential|signature|_key$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(\w+://[^/\s:@]*:)[^@\s/]+@")
# Another system answers a waiting call under its token.
_TOKEN_IN_PATH = re.compile(r"(/pauses/)[^/]+")
_MASK = "[hidden]"
# What these say below their level are headers, cookies, bodies and addresses with credentials.
# Their levels are no setting: whoever looks for a fault with DEBUG must not find somebody's secret.
FLOORS: dict[str, int] = {
    "amqp": logging.WARNING,
    "celery.app.trace": logging.WARNING,
    "celery.beat": logging.WARNING,
    "celery.bootsteps": logging.INFO,
    "celery.worker.strategy": logging.WARNING,
    "django.db.backends": logging.INFO,
    "h11": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpcore2": logging.WARNING,
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "kombu": logging.INFO,
    "openai": logging.WARNING,
    "psycopg": logging.WARNING,
    "redis": logging.WARNING,
    "urllib3": logging.WARNING,
    "uvicorn": logging.INFO,
    "websockets": logging.INFO,
}


class RequestLogMiddleware(RequestMiddleware):
    """Bind and log each request, leaving out the query string, which may carry anything."""

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        """Name the request by its method and path, in which no token is shown."""
        path = _TOKEN_IN_PATH.sub(rf"\1{_MASK}", request.path)
        return f"{request.method} {path}"


def bind_request(request: HttpRequest, **_: Any) -> None:
    """Give the request a correlation id of our own making, and note where it came from."""
    bound = structlog.contextvars.get_contextvars()
    structlog.contextvars.bind_contextvars(
        correlation_id=bound["request_id"].replace("-", ""), ip=request.META.get("REMOTE_ADDR")
    )


def bind_task(**_: Any) -> None:
    """Give a task that no request caused, such as a sweep, a correlation id of its own."""
    bound = structlog.contextvars.get_contextvars()
    if "correlation_id" not in bound:
        structlog.contextvars.bind_contextvars(correlation_id=bound["task_id"])


def mask_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Hide values whose name says that they are secret, and passwords inside URLs."""
    for name, value in event.items():
        event[name] = _masked(name, value)
    return event


@functools.lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def _masked(name: str, value: Any) -> Any:
    if _is_secret(name):
        return _MASK
    if isinstance(value, str) and "://" in value:
        return _URL_PASSWORD.sub(rf"\1{_MASK}@", value)
    if isinstance(value, Mapping):
        return {key: _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", inner) for inner in value]
    return value


class Floors(logging.Filter):
    """Drops what a library says below its floor, also where it sets its own level to say more.

    One of them does so for a variable of the environment.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a record through unless its logger, or one above it, has a higher floor."""
        parts = record.name.split(".")
        names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return record.levelno >= next((FLOORS[name] for name in names if name in FLOORS), 0)


def _at_least(floor: int, level: str) -> int:
    """Return the floor, or what the deployment wants where that is still less."""
    wanted = logging.getLevelNamesMapping().get(level, floor)
    return max(floor, wanted)


def connect() -> None:
    """Listen for requests and tasks, so that each binds its correlation id."""
    signals.bind_extra_request_metadata.connect(bind_request, dispatch_uid="kaizen.log.request")
    _connect_tasks()


def _connect_tasks() -> None:
    from django_structlog.celery import signals as task_signals

    task_signals.bind_extra_task_metadata.connect(bind_task, dispatch_uid="kaizen.log.task")


def configuration(*, console: bool, level: str) -> dict[str, Any]:
    """Return Django's LOGGING: JSON lines, or coloured lines for a person's console."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    ending: list[Any] = (
        # Plain: the pretty one prints local variables, and those may be secrets.
        [
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [structlog.processors.JSONRenderer()]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "kaizen": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*shared, structlog.stdlib.ExtraAdder()],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    # Text before it is masked: what failed may quote the address that it asked.
                    structlog.processors.format_exc_info,
                    mask_secrets,
                    *ending,
                ],
            }
        },
        "filters": {"floors": {"()": Floors}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "kaizen",
                "filters": ["floors"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # The request log says each of these once, with more context.
            "django.server": {"handlers": [], "propagate": False},
            "django.request": {"handlers": [], "propagate": False},
            "uvicorn.access": {"handlers": [], "propagate": False},
            **{name: {"level": _at_least(floor, level)} for name, floor in FLOORS.items()},
        },
    }

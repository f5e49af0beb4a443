"""What does this process learn from its environment, and what does it refuse to start without?"""

import os
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from apps.domain.egress import AddressBlock, BadNetwork, read_blocks
from apps.domain.internalhosts import BadHost, InternalHosts
from kaizen.liveness import PooledConnection

REQUIRED = (
    "DATABASE_URL",
    "REDIS_URL",
    "KAIZEN_SECRET_KEY",
    "KAIZEN_AUDIT_KEY",
    "KAIZEN_STATE_DIR",
    "KAIZEN_SANDBOXD_SOCKET",
    "KAIZEN_ALLOWED_HOSTS",
)
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})
_KEY_LENGTH = 50
_SECRET_LENGTH = 20


class Environment:
    """The environment variables of one process, read with clear refusals."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = os.environ if values is None else values

    def demand(self, names: tuple[str, ...] = REQUIRED) -> None:
        """Refuse to start unless every required variable has a value."""
        missing = [name for name in names if not self._values.get(name, "").strip()]
        if missing:
            raise ImproperlyConfigured(
                f"Kaizen needs {', '.join(missing)} in its environment: `make up` sets everything "
                "for one machine, and docs/deploy.md explains each value."
            )

    def text(self, name: str, default: str = "") -> str:
        """Return a variable without surrounding space."""
        return self._values.get(name, default).strip()

    def key(self, name: str) -> str:
        """Return a secret, refusing one that is too short to be one."""
        value = self.text(name)
        if len(value) < _KEY_LENGTH:
            raise ImproperlyConfigured(f"{name} must have at least {_KEY_LENGTH} characters.")
        return value

    def secret(self, name: str) -> str:
        """Return an optional secret, refusing one that could be guessed."""
        value = self.text(name)
        if value and len(value) < _SECRET_LENGTH:
            raise ImproperlyConfigured(f"{name} must have at least {_SECRET_LENGTH} characters.")
        return value

    def address(self, name: str) -> str:
        """Return an optional address to send to, refusing one that others could read on the way."""
        value = self.text(name)
        parts = urlsplit(value)
        loopback = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
        if value and not (parts.hostname and (parts.scheme == "https" or loopback)):
            raise ImproperlyConfigured(f"{name} must begin with https:// and name a host.")
        return value

    def flag(self, name: str) -> bool:
        """Return a switch that is off unless it is plainly on."""
        value = self.text(name).lower()
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise ImproperlyConfigured(f"{name} is {value!r}; write 1 for on or 0 for off.")

    def number(self, name: str, default: int, *, least: int = 0) -> int:
        """Return a whole number."""
        value = self.text(name) or str(default)
        if not value.isascii() or not value.isdigit() or int(value) < least:
            raise ImproperlyConfigured(f"{name} is {value!r}, not a whole number from {least} up.")
        return int(value)

    def choice(self, name: str, options: tuple[str, ...]) -> str:
        """Return one of the words that a variable may hold; the first where it is not set."""
        value = self.text(name) or options[0]
        if value not in options:
            raise ImproperlyConfigured(f"{name} is {value!r}; it is one of {', '.join(options)}.")
        return value

    def listing(self, name: str) -> list[str]:
        """Return the parts of a comma-separated variable."""
        return [part.strip() for part in self.text(name).split(",") if part.strip()]

    def words(self, name: str, known: Collection[str]) -> frozenset[str]:
        """Return the parts of a comma-separated variable, refusing one that means nothing."""
        given = frozenset(self.listing(name))
        if unknown := sorted(given - set(known)):
            raise ImproperlyConfigured(
                f"{name} has {unknown[0]!r} in it; there are {', '.join(sorted(known))}."
            )
        return given

    def blocks(self, name: str) -> tuple[AddressBlock, ...]:
        """Return the blocks of addresses of a comma-separated variable."""
        try:
            return read_blocks(self.listing(name))
        except BadNetwork as problem:
            raise ImproperlyConfigured(f"{name}: {problem}") from problem

    def hosts(self, name: str) -> tuple[str, ...]:
        """Return hosts, suffixes, addresses and blocks, refusing an entry that names nothing."""
        given = tuple(self.listing(name))
        try:
            InternalHosts(given)
        except BadHost as problem:
            raise ImproperlyConfigured(f"{name}: {problem}") from problem
        return given


def database(url: str, *, pool_size: int) -> dict[str, Any]:
    """Translate a PostgreSQL URL into Django's settings, with a bounded connection pool."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            "DATABASE_URL must look like postgresql://USER:PASSWORD@HOST:PORT/NAME: "
            "Kaizen runs on PostgreSQL only."
        )
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured("DATABASE_URL has a port that is not a number.") from None
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        # The pool replaces persistent connections, which run out under ASGI; whatever waits
        # gives its connection back first.
        "CONN_MAX_AGE": 0,
        # Asked as it leaves the pool: after a restart of the server, every process would otherwise
        # answer each of its old connections with a failure.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # What is sent often is prepared by `apps.core.wire`, under names that it remembers. A
            # driver that prepared too would let go of all of them, these included, at a rollback.
            "prepare_threshold": None,
            **dict(parse_qsl(parts.query)),
            "pool": {
                "min_size": 1,
                "max_size": pool_size,
                "timeout": 5,
                "connection_class": PooledConnection,
            },
        },
    }


def redis_url(url: str) -> str:
    """Return the URL of Redis or Valkey after a look at its scheme."""
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss"} or not parts.hostname:
        raise ImproperlyConfigured("REDIS_URL must look like redis://:PASSWORD@HOST:PORT/0.")
    return url

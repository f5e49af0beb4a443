"""Is this process alive, and is everything that it needs there?"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

log = structlog.get_logger(__name__)


class Word(StrEnum):
    """All that a stranger may hear about a part."""

    OK = "ok"
    AWAY = "away"
    BEHIND = "behind"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Part:
    """How one part is: a closed word for everybody, a sentence for administrators."""

    name: str
    word: Word
    sentence: str
    needed: bool = True

    @property
    def holds(self) -> bool:
        """Whether requests can be served with this part as it is."""
        return self.word is Word.OK or not self.needed


_more: list[Callable[[], Part]] = []
_migrated = False


def register_part(look: Callable[[], Part]) -> None:
    """Let an app above tell how its part is; `look` is quick and never raises, whatever is away."""
    _more.append(look)


def look_around() -> list[Part]:
    """Look at every part once."""
    database = _database()
    migrations = (
        _migrations()
        if database.word is Word.OK
        else Part("migrations", Word.AWAY, "Unknown while the database is away.")
    )
    return [database, migrations, _redis(), *(look() for look in _more)]


def _database() -> Part:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as gone:
        log.warning("database_away", error=type(gone).__name__)
        return Part("database", Word.AWAY, "PostgreSQL does not answer.")
    return Part("database", Word.OK, "PostgreSQL answers.")


def _migrations() -> Part:
    global _migrated
    if not _migrated:
        try:
            executor = MigrationExecutor(connection)
            missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        except DatabaseError as gone:
            log.warning("migrations_unknown", error=type(gone).__name__)
            return Part("migrations", Word.AWAY, "The applied migrations cannot be read.")
        if missing:
            return Part(
                "migrations",
                Word.BEHIND,
                f"{len(missing)} migrations are not applied: run `manage.py migrate`.",
            )
        # Migrations are not taken back under a running process.
        _migrated = True
    return Part("migrations", Word.OK, "Every migration is applied.")


def _redis() -> Part:
    try:
        _client(settings.REDIS_URL).ping()
    except redis.RedisError as gone:
        log.warning("redis_away", error=type(gone).__name__)
        return Part("redis", Word.AWAY, "Redis or Valkey does not answer.")
    return Part("redis", Word.OK, "Redis or Valkey answers.")


@functools.lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0, retry=None)

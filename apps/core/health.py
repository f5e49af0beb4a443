"""Is this process alive, and is everything that it needs there?"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
    """How one part is: a closed word for everybody, sentences for administrators.

    Whoever tells of it (a probe's answer, a page, a command) uses these sentences and no others.
    """

    name: str
    word: Word
    sentence: str
    needed: bool = True
    in_force: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    mend: str = ""
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether requests can be served with this part as it is."""
        return self.word is Word.OK or not self.needed

    @property
    def story(self) -> str:
        """Return everything in one text, for an answer that has room for one."""
        told = [f"In force: {line}." for line in self.in_force]
        told += [f"Missing: {line}" for line in self.missing]
        if self.mend:
            told.append(f"To mend it: {self.mend}")
        return " ".join([self.sentence, *told])


@dataclass(frozen=True, slots=True)
class _Look:
    quick: Callable[[], Part]
    close: Callable[[], Part]


_more: list[_Look] = []
_migrated = False
_SWEPT = "kaizen:swept"
_REMEMBERED_SECONDS = 3600
SILENT_SECONDS = 30.0
"""Six sweeps of beat's: a busy worker may miss some."""
_START = "Start it; `make up` does."


def register_part(look: Callable[[], Part], *, close: Callable[[], Part] | None = None) -> None:
    """Let an app above tell how its part is; `look` is quick and never raises, whatever is away.

    `close` may take longer, within a bound of its own, and trusts nothing that is remembered.
    """
    _more.append(_Look(look, close or look))


def look_around(*, closely: bool = False) -> list[Part]:
    """Look at every part once; `closely` is for a person who asked, never for a probe."""
    database = _database()
    migrations = (
        _migrations()
        if database.word is Word.OK
        else Part("migrations", Word.AWAY, "Unknown while the database is away.")
    )
    more = [look.close() if closely else look.quick() for look in _more]
    return [database, migrations, _redis(), *more]


def _database() -> Part:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as gone:
        log.warning("database_away", error=type(gone).__name__)
        return Part("database", Word.AWAY, "PostgreSQL does not answer.", mend=_START)
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
                f"{len(missing)} migrations are not applied.",
                mend="Run `python manage.py migrate`.",
            )
        # Migrations are not taken back under a running process.
        _migrated = True
    return Part("migrations", Word.OK, "Every migration is applied.")


def _redis() -> Part:
    try:
        _client(settings.REDIS_URL).ping()
    except redis.RedisError as gone:
        log.warning("redis_away", error=type(gone).__name__)
        return Part("redis", Word.AWAY, "Redis or Valkey does not answer.", mend=_START)
    return Part("redis", Word.OK, "Redis or Valkey answers.")


def note_sweep() -> None:
    """Note that beat's bell was heard and answered; raises what Redis raises."""
    _client(settings.REDIS_URL).set(_SWEPT, 1, ex=_REMEMBERED_SECONDS)


def workers_part() -> Part:
    """Return whether beat and a worker do their work: when did the last sweep end?"""
    name, mend = "workers", "Start `beat` and the workers, or read why they end; `make up` does."
    try:
        left: Any = _client(settings.REDIS_URL).pttl(_SWEPT)
    except redis.RedisError as gone:
        log.warning("redis_away", error=type(gone).__name__)
        said = "Unknown while Redis or Valkey is away."
        return Part(name, Word.AWAY, said, needed=False)
    # By the clock of the store alone: those of the machines may differ.
    if left < 0:
        said = "No worker has swept for an hour: what agents and members start waits."
        return Part(name, Word.AWAY, said, needed=False, mend=mend)
    silent = _REMEMBERED_SECONDS - left / 1000
    if silent > SILENT_SECONDS:
        said = f"No worker has swept for {silent:.0f} s: what agents and members start waits."
        return Part(name, Word.AWAY, said, needed=False, mend=mend)
    return Part(name, Word.OK, "Beat rings, and a worker answers.", needed=False)


@functools.lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0, retry=None)

"""How does what each process counts become one number, over all processes and machines?

Every process counts in its own memory and lays its totals down in Redis every few seconds, under a
name of its own. Totals are absolute, so writing them twice changes nothing. Whoever reads adds the
processes up; one that has been silent for a minute is folded into what is kept of those that ended.
What a process counted in its last seconds before it was killed is lost, and nothing is doubled.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import redis
import structlog
from django.conf import settings
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

log = structlog.get_logger(__name__)

LAY_DOWN_SECONDS = 5.0
SILENT_MS = 60_000
_FORGET_SECONDS = 7 * 24 * 3600

Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""A metric, one of its samples, and the sample's labels."""

# KEYS: the process's totals, the processes, those that were folded. ARGV: name, whether these are
# all totals, then field and value in turn. Answers 0 for a folded name, 2 where all are wanted.
_LAY_DOWN = """
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 then return 0 end
if ARGV[2] == '0' and redis.call('EXISTS', KEYS[1]) == 0 then return 2 end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
local clock = redis.call('TIME')
redis.call('ZADD', KEYS[2], clock[1] * 1000 + math.floor(clock[2] / 1000), ARGV[1])
return 1
"""
# KEYS: what is kept of ended processes, the processes, those that were folded. ARGV: prefix of the
# totals, silence in ms, how long a folded name is remembered. A gauge ends with its process.
_GATHER = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2])) do
  local totals = redis.call('HGETALL', ARGV[1] .. name)
  for i = 1, #totals, 2 do
    if string.sub(totals[i], 1, 1) ~= 'g' then
      redis.call('HINCRBYFLOAT', KEYS[1], totals[i], totals[i + 1])
    end
  end
  redis.call('DEL', ARGV[1] .. name)
  redis.call('ZREM', KEYS[2], name)
  redis.call('SADD', KEYS[3], name)
  redis.call('EXPIRE', KEYS[3], ARGV[3])
end
local all = {redis.call('HGETALL', KEYS[1])}
for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  table.insert(all, redis.call('HGETALL', ARGV[1] .. name))
end
return all
"""


class Board:
    """The totals of this process, and where they are laid down beside the others'."""

    def __init__(self, registry: CollectorRegistry, *, prefix: str = "kaizen:metrics") -> None:
        self._registry = registry
        self._prefix = prefix
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        self._since: dict[str, float] = {}
        self._laid: dict[str, float] = {}
        self._pid = 0
        self._ended = threading.Event()
        os.register_at_fork(after_in_child=self._after_fork)

    def start(self) -> None:
        """Lay totals down from now on; cheap to call again before every count."""
        if self._pid != os.getpid():
            self._start()

    def stop(self) -> None:
        """Lay nothing down any more, and say no last word: the store ends before this process."""
        self._ended.set()
        atexit.unregister(self._last_word)

    def lay_down(self) -> None:
        """Write what this process has counted. Raises what Redis raises."""
        with self._lock:
            totals = self._totals()
            changed = {key: value for key, value in totals.items() if self._laid.get(key) != value}
            answer = self._send(changed, whole=False)
            if answer == 0:
                # We were silent for so long that what had been laid down counts as kept.
                self._begin_anew(since={**self._since, **self._kept_of(self._laid)})
                totals = self._totals()
            if answer != 1:
                self._send(totals, whole=True)
            self._laid = totals

    def gather(self) -> dict[tuple[str, Key], float]:
        """Return the sums over all processes by kind and key. Raises what Redis raises."""
        self.lay_down()
        sums: dict[tuple[str, Key], float] = {}
        for totals in _script(_client(), _GATHER)(
            keys=[f"{self._prefix}:ended", f"{self._prefix}:processes", f"{self._prefix}:folded"],
            args=[f"{self._prefix}:of:", SILENT_MS, _FORGET_SECONDS],
        ):
            for field, value in zip(totals[::2], totals[1::2], strict=True):
                key = _key(field.decode())
                sums[key] = sums.get(key, 0.0) + float(value)
        return sums

    def own(self) -> dict[tuple[str, Key], float]:
        """Return what this process alone has counted."""
        with self._lock:
            return {_key(field): value for field, value in self._totals().items()}

    def _send(self, totals: dict[str, float], *, whole: bool) -> int:
        pairs = [part for field, value in totals.items() for part in (field, repr(value))]
        answer: Any = _script(_client(), _LAY_DOWN)(
            keys=[
                f"{self._prefix}:of:{self._name}",
                f"{self._prefix}:processes",
                f"{self._prefix}:folded",
            ],
            args=[self._name, int(whole), *pairs],
        )
        return int(answer)

    def _totals(self) -> dict[str, float]:
        return {
            field: value - self._since.get(field, 0.0) for field, value in _read(self._registry)
        }

    @staticmethod
    def _kept_of(laid: dict[str, float]) -> dict[str, float]:
        return {field: value for field, value in laid.items() if not field.startswith("g")}

    def _begin_anew(self, *, since: dict[str, float]) -> None:
        self._name = uuid.uuid4().hex
        self._since = since
        self._laid = {}

    def _after_fork(self) -> None:
        # The child has its parent's numbers in memory, and they are the parent's.
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._begin_anew(since=self._kept_of(dict(_read(self._registry))))
        self._pid = 0

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
        threading.Thread(target=self._work, name="metrics", daemon=True).start()
        atexit.register(self._last_word)

    def _work(self) -> None:
        failing = False
        while not self._ended.wait(LAY_DOWN_SECONDS):
            try:
                self.lay_down()
            except redis.RedisError as gone:
                if not failing:
                    log.warning("metrics_not_laid_down", error=type(gone).__name__)
                failing = True
                continue
            failing = False

    def _last_word(self) -> None:
        try:
            self.lay_down()
        except redis.RedisError as gone:
            log.warning("metrics_not_laid_down", error=type(gone).__name__)


def families(registry: CollectorRegistry, sums: dict[tuple[str, Key], float]) -> Iterator[Metric]:
    """Return the metrics of a registry, with these sums for values."""
    for known in registry.collect():
        metric = Metric(known.name, known.documentation, known.type, known.unit)
        ours = [(key, value) for (_, key), value in sums.items() if key[0] == known.name]
        for (_, sample, labels), value in sorted(ours, key=_place):
            metric.add_sample(sample, dict(labels), value)
        yield metric


def _place(entry: tuple[Key, float]) -> Any:
    """Series by their labels; within a histogram the buckets in the order of their bounds."""
    _, sample, labels = entry[0]
    others = tuple((name, value) for name, value in labels if name != "le")
    bound = next((float(value) for name, value in labels if name == "le"), float("inf"))
    return others, bound, sample


def _read(registry: CollectorRegistry) -> Iterator[tuple[str, float]]:
    for metric in registry.collect():
        kind = "g" if metric.type == "gauge" else "c"
        for sample in metric.samples:
            if not sample.name.endswith("_created"):
                yield _field(kind, metric.name, sample.name, sample.labels), sample.value


def _field(kind: str, metric: str, sample: str, labels: dict[str, str]) -> str:
    return kind + json.dumps([metric, sample, sorted(labels.items())], separators=(",", ":"))


@functools.lru_cache(maxsize=10_000)
def _key(field: str) -> tuple[str, Key]:
    metric, sample, labels = json.loads(field[1:])
    return field[0], (metric, sample, tuple((name, value) for name, value in labels))


def _client() -> redis.Redis:
    return _client_of(settings.REDIS_URL)


@functools.lru_cache(maxsize=4)
def _client_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=1.0, retry=None)


@functools.lru_cache(maxsize=8)
def _script(client: redis.Redis, text: str) -> Any:
    return client.register_script(text)

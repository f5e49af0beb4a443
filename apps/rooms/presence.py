"""Who is in the room right now, whichever web process their socket ended up in?

Each hub keeps its own members alive in one sorted set per room, scored by expiry on Redis's clock.
Whoever changes the set announces the whole of it in the same step, so announcements are in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import redis
import structlog

from apps.rooms import relay

log = structlog.get_logger(__name__)

LIFE_MS = 25_000
"""A hub that fell silent loses its members after this long."""
BEAT_SECONDS = 10.0

# ARGV: life in ms, channel, number of members who stay, those members, then those who went.
ANNOUNCE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local changed = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local staying = tonumber(ARGV[3])
for i = 4, #ARGV do
  if i - 3 <= staying then
    changed = changed + redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
  else
    changed = changed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
local seen, online = {}, {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local user = tonumber(string.match(member, ':(%d+)$'))
  if user and not seen[user] then
    seen[user] = true
    table.insert(online, user)
  end
end
table.sort(online)
if changed > 0 then
  local frame = '{"type":"presence","online":[' .. table.concat(online, ',') .. ']}'
  redis.call('PUBLISH', ARGV[2], frame)
end
return online
"""


def presence_key(room_id: str) -> str:
    """Return the key of a room's sorted set of members."""
    return f"kaizen:presence:{room_id}"


def announcement(
    *, room_id: str, process: str, here: Iterable[int], gone: Iterable[int]
) -> tuple[list[str], list[Any]]:
    """Return the keys and arguments of the script for one hub's members of a room."""
    staying = [f"{process}:{user_id}" for user_id in here]
    leaving = [f"{process}:{user_id}" for user_id in gone]
    arguments: list[Any] = [LIFE_MS, relay.channel_of(room_id), len(staying), *staying, *leaving]
    return [presence_key(room_id)], arguments


def online_in(room_id: str) -> set[int]:
    """Return the ids of members with an open socket, for a page that asks once."""
    try:
        members: Any = relay.client().zrangebyscore(
            presence_key(room_id), time.time() * 1000, "+inf"
        )
    except redis.RedisError as gone:
        # Presence is a courtesy: without the store everybody looks away.
        log.warning("presence_not_read", room=room_id, error=type(gone).__name__)
        return set()
    return {int(member.decode().rpartition(":")[2]) for member in members}

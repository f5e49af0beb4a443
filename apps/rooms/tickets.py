"""How does a client without a session open a socket? With a ticket: one use, one room, 30 s.

A long-lived token never stands in an address, where logs and histories keep it. What is stored is
the ticket's digest, and redeeming deletes it in the same step.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import uuid
from typing import Any

import redis

from apps.accounts.models import User
from apps.core.errors import NotFound, Unavailable
from apps.rooms import relay
from apps.rooms.models import Room

TICKET_SECONDS = 30
_MAX_LENGTH = 100


def issue_ticket(user: User, room_id: Any) -> str:
    """Return a ticket for this member and room, or refuse as if the room did not exist."""
    room = Room.objects.visible_to(user).filter(pk=room_id).first()
    if room is None:
        raise NotFound("There is no such room.")
    ticket = secrets.token_urlsafe(32)
    bound = json.dumps({"user": user.pk, "room": str(room.pk)})
    try:
        relay.client().set(_key(ticket), bound, ex=TICKET_SECONDS)
    except redis.RedisError:
        raise Unavailable("Tickets cannot be issued right now. Try again in a moment.") from None
    return ticket


def redeem_ticket(ticket: str, room_id: uuid.UUID) -> User | None:
    """Spend a ticket and return its member; None if it is unknown, spent, late or of elsewhere."""
    if len(ticket) > _MAX_LENGTH:
        return None
    try:
        bound: Any = relay.client().getdel(_key(ticket))
    except redis.RedisError:
        raise Unavailable("Tickets cannot be checked right now.") from None
    if bound is None:
        return None
    claim = json.loads(bound)
    if claim["room"] != str(room_id):
        return None
    return User.objects.filter(pk=claim["user"], is_active=True).first()


def _key(ticket: str) -> str:
    return "kaizen:ticket:" + hashlib.sha256(ticket.encode()).hexdigest()

"""How does a call wait for another system, and how does that system prove that it was asked?

A tool that pauses hands a link to another system. The token in the link is the proof: it is kept
as a hash only, names one call, and is used once. The caller holds the locks of run and call,
except where a token is given: that is a transaction of its own, since the answer may come back
before the tool has.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.approvals.errors import PauseNotFound
from apps.approvals.models import Pause
from apps.audit.services import SYSTEM, record
from apps.domain.canonical import digest
from apps.domain.tooling import Pauses
from apps.runs.bodies import pack, unpack
from apps.runs.models import Call

PATH = "/api/v1/pauses/"
OPEN = (Pause.State.GIVEN, Pause.State.WAITING)


@transaction.atomic
def give_link(*, call: Call, pauses: Pauses) -> str:
    """Return the link under which another system may answer this call; it exists only once."""
    token = secrets.token_urlsafe(32)
    pause = Pause.objects.create(
        call=call,
        token_hash=_hash(token),
        expires_at=timezone.now() + timedelta(seconds=pauses.most_s),
    )
    record(actor=SYSTEM, action="pause.given", subject=pause, detail={"call": str(call.pk)})
    return f"{settings.KAIZEN_ORIGINS[0]}{PATH}{token}"


def pause_of_token(token: str) -> Pause:
    """Return the pause that a token stands for, or refuse as if there were none."""
    found = Pause.objects.select_related("call").filter(token_hash=_hash(token)).first()
    if found is None:
        raise PauseNotFound("Nothing waits under this address.")
    return found


def lock_pause(call: Call) -> Pause | None:
    """Lock the pause of a call whose row is locked; none where no link was ever given."""
    return Pause.objects.select_for_update(no_key=True).filter(call=call).first()


def begin_wait(*, pause: Pause, seconds: float, provenance: Mapping[str, Any]) -> None:
    """Let a call wait from now on, as long as its tool said, and keep how its link went out."""
    pause.state = Pause.State.WAITING
    pause.expires_at = timezone.now() + timedelta(seconds=seconds)
    pause.save(update_fields=["state", "expires_at", "updated_at"])
    record(
        actor=SYSTEM,
        action="pause.begun",
        subject=pause,
        detail={
            "call": str(pause.call_id),
            "until": pause.expires_at.isoformat(),
            **({"provenance": dict(provenance)} if provenance else {}),
        },
    )


def keep_answer(*, pause: Pause, answer: Any, early: bool) -> None:
    """Use the token up; an answer that came before the tool said that it waits is put aside."""
    if early:
        pause.early, pause.early_blob = pack(answer)
    pause.state = Pause.State.ANSWERED
    pause.answer_digest = digest(answer)
    pause.answered_at = timezone.now()
    pause.save()
    record(
        actor=SYSTEM,
        action="pause.answered",
        subject=pause,
        digest=pause.answer_digest,
        detail={"call": str(pause.call_id), "early": early},
    )


def early_answer(pause: Pause) -> Any:
    """Return the answer that was put aside."""
    return unpack(pause.early, pause.early_blob)


def close_pause(*, pause: Pause, state: Pause.State) -> None:
    """End a wait that no answer can end any more."""
    pause.state = state
    pause.save(update_fields=["state", "updated_at"])
    record(
        actor=SYSTEM,
        action=f"pause.{state.value}",
        subject=pause,
        detail={"call": str(pause.call_id)},
    )


def overdue_pauses(limit: int) -> Iterable[Any]:
    """Ids of pauses whose time has passed."""
    return Pause.objects.filter(Q(state__in=OPEN), expires_at__lte=Now()).values_list(
        "pk", flat=True
    )[:limit]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

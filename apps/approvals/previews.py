"""How is an operation outside applied exactly as it was previewed and approved, and only once?

A tool previews first: what would be done, and where. Whoever applies names both digests among the
arguments, so that the yes to the arguments is a yes to exactly this preview of exactly this
environment. The end stays as a tombstone, so a replay applies nothing and gets the same answer.

What is lost decides what may be said. A lost or outdated record: preview again. A store that is
away before the operation: no operation. A store that is lost after it: nobody may say that it
succeeded, whatever the platform answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.utils import timezone

from apps.approvals.errors import BeingApplied, NotAuthorized, OutcomeUnknown, PreviewAgain
from apps.approvals.models import Preview, Receipt, Waiver
from apps.audit.services import SYSTEM, record
from apps.core.errors import Refusal
from apps.domain.canonical import digest
from apps.runs.bodies import arguments_of, pack, unpack
from apps.runs.models import Call, Run

PREVIEW = "preview_digest"
ENVIRONMENT = "environment_digest"
"""The arguments in which an operation names what it was shown, and where that would happen."""
PREVIEW_FOR = timedelta(minutes=30)
APPLY_WITHIN = timedelta(minutes=5)
"""An operation that is not heard of again within this has an unknown end."""

log = structlog.get_logger(__name__)

_AGAIN = "What was previewed is gone or no longer true. Preview again; nothing was done."
_UNKNOWN = "Whether the operation was carried out is unknown. Look before you preview again."


class NothingDone(Exception):
    """What an operation raises when the platform refused it before anything was done."""


@dataclass(frozen=True, slots=True)
class Applied:
    """An operation that was carried out: now, or before with the same digests."""

    result: Any
    replayed: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """The digests that an operation has to name."""

    preview_digest: str
    environment_digest: str


def binding_in(arguments: Mapping[str, Any]) -> str:
    """Return the one digest of request, preview and environment that arguments name, or nothing."""
    preview, environment = arguments.get(PREVIEW), arguments.get(ENVIRONMENT)
    if not isinstance(preview, str) or not isinstance(environment, str):
        return ""
    return _binding(_request_of(arguments), preview, environment)


@transaction.atomic
def show_preview(
    *,
    run: Run,
    operation: str,
    request: Mapping[str, Any],
    preview: Any,
    environment: Any,
) -> Shown:
    """Keep what an operation would do, and where; return the digests that applying it names."""
    shown = Shown(digest(preview), digest(environment))
    binding = _binding(digest(dict(request)), shown.preview_digest, shown.environment_digest)
    row, made = Preview.objects.get_or_create(
        run=run,
        binding=binding,
        defaults={
            "member_id": run.member_id,
            "operation": operation,
            "request_digest": digest(dict(request)),
            "preview_digest": shown.preview_digest,
            "environment_digest": shown.environment_digest,
            "expires_at": timezone.now() + PREVIEW_FOR,
        },
    )
    if not made and row.state in (Preview.State.SHOWN, Preview.State.FAILED):
        # What failed before anything was done may be applied after all, by another call.
        row.state = Preview.State.SHOWN
        row.applied_by = None
        row.expires_at = timezone.now() + PREVIEW_FOR
        row.save(update_fields=["state", "applied_by", "expires_at", "updated_at"])
    record(
        actor=SYSTEM,
        action="preview.shown",
        subject=row,
        digest=binding,
        detail={"operation": operation, "run": str(run.pk)},
    )
    return shown


def apply_preview(
    *, call: Call, operation: str, environment: Any, operate: Callable[[], Any]
) -> Applied:
    """Carry out an approved operation once, or hand back what became of it before.

    `environment` is how things stand now: where it is no longer what was previewed, nothing is
    done. `operate` is called with no lock held, and at most once for these digests, ever.
    """
    binding = binding_in(arguments_of(call))
    try:
        found = _claim(call, operation, binding, digest(environment))
    except DatabaseError as away:
        log.warning("preview_store_away", call=str(call.pk), error=type(away).__name__)
        raise PreviewAgain(_AGAIN) from away
    if isinstance(found, Applied):
        return found
    try:
        result = operate()
    except NothingDone as refused:
        _finish(found, Preview.State.FAILED, None)
        raise PreviewAgain(str(refused) or _AGAIN) from refused
    except Exception:
        _finish(found, Preview.State.AMBIGUOUS, None)
        raise
    _finish(found, Preview.State.APPLIED, result)
    return Applied(result, replayed=False)


def _claim(call: Call, operation: str, binding: str, environment_now: str) -> Preview | Applied:
    """Take the right to apply, or say why there is none; what is found out is kept."""
    with transaction.atomic():
        row = (
            Preview.objects.select_for_update(no_key=True)
            .filter(
                run_id=call.run_id,
                member_id=call.run.member_id,
                operation=operation,
                binding=binding,
            )
            .first()
        )
        found = _standing(row, call, environment_now)
        if row is not None and isinstance(found, OutcomeUnknown):
            _keep(row, Preview.State.AMBIGUOUS)
        elif row is not None and found is None:
            row.applied_by = call
            row.applying_until = timezone.now() + APPLY_WITHIN
            _keep(row, Preview.State.APPLYING)
    if isinstance(found, Refusal):
        raise found
    if found is not None:
        return found
    if row is None:
        raise PreviewAgain(_AGAIN)
    return row


def _standing(row: Preview | None, call: Call, environment_now: str) -> Applied | Refusal | None:
    """Return what stands in the way of applying, the tombstone of what was applied, or nothing."""
    if row is None:
        return PreviewAgain(_AGAIN)
    match Preview.State(row.state):
        case Preview.State.APPLIED:
            return Applied(unpack(row.result, row.result_blob), replayed=True)
        case Preview.State.AMBIGUOUS:
            return OutcomeUnknown(_UNKNOWN)
        case Preview.State.FAILED:
            return PreviewAgain(_AGAIN)
        case Preview.State.APPLYING:
            until = row.applying_until
            if until is not None and until > timezone.now():
                return BeingApplied("This operation is being carried out at this moment.")
            return OutcomeUnknown(_UNKNOWN)
        case Preview.State.SHOWN:
            if row.expires_at <= timezone.now() or row.environment_digest != environment_now:
                return PreviewAgain(_AGAIN)
            return (
                None
                if _is_authorized(call, row.binding)
                else NotAuthorized("Nobody has agreed to exactly this preview.")
            )


def _is_authorized(call: Call, binding: str) -> bool:
    """Tell whether a spent receipt or a waiver stands behind exactly this call."""
    receipt = Receipt.objects.filter(
        call=call,
        actor_id=call.run.member_id,
        arguments_digest=call.arguments_digest,
        binding=binding,
        spent_at__isnull=False,
    )
    waived = Waiver.objects.filter(call=call, arguments_digest=call.arguments_digest)
    return receipt.exists() or waived.exists()


def _finish(row: Preview, state: Preview.State, result: Any) -> None:
    """Set the tombstone. Where that fails, the end of an operation is unknown to everybody."""
    try:
        with transaction.atomic():
            row.result, row.result_blob = pack(result)
            held = Preview.objects.filter(pk=row.pk, state=Preview.State.APPLYING)
            if held.select_for_update(no_key=True).first() is None:
                raise OutcomeUnknown(_UNKNOWN)
            row.applying_until = None
            _keep(row, state)
    except DatabaseError as lost:
        log.error("tombstone_not_set", preview=str(row.pk), error=type(lost).__name__)
        raise OutcomeUnknown(_UNKNOWN) from lost


def _keep(row: Preview, state: Preview.State) -> None:
    row.state = state
    row.save()
    record(
        actor=SYSTEM,
        action=f"preview.{state.value}",
        subject=row,
        digest=row.binding,
        detail={"operation": row.operation, "call": str(row.applied_by_id or "")},
    )


def _request_of(arguments: Mapping[str, Any]) -> str:
    return digest({k: v for k, v in arguments.items() if k not in (PREVIEW, ENVIRONMENT)})


def _binding(request: str, preview: str, environment: str) -> str:
    return digest({"request": request, "preview": preview, "environment": environment})

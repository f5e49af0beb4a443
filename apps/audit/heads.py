"""Where do the newest seals stand outside the database, and are they still in it?

Each seal goes to the log, to a file of this machine, and where a deployment asks for it to an
address. Since every seal covers the one before it, a single newer one that is missing from the
database proves that the tail was cut; so the file may forget its oldest lines.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog
from django.conf import settings

from apps.audit.models import AuditSeal, Retention

log = structlog.get_logger(__name__)

KEPT = 10_000
"""Lines that the file keeps at least: more than a day of a seal every ten seconds."""
ROOM = 2_000_000
"""Bytes above which the file is looked at: some way beyond the lines that it keeps."""
POST_SECONDS = 5.0

Note = Callable[[str], None]


def head_path() -> Path:
    """Where the newest seals are written down outside the database."""
    return Path(settings.KAIZEN_STATE_DIR) / "audit-head.jsonl"


def export_seal(seal: AuditSeal) -> None:
    """Write a committed seal down outside."""
    log.info("audit_sealed", seal=seal.pk, rows=seal.rows, mac=seal.mac)
    _export({"seal": seal.pk, "mac": seal.mac, "at": seal.sealed_at.isoformat()})


def export_retention(kept: Retention) -> None:
    """Write down outside that a month was dropped, so that nobody else can say so later."""
    log.info("audit_retained", month=f"{kept.month:%Y-%m}", rows=kept.rows, mac=kept.mac)
    _export(
        {
            "retained": f"{kept.month:%Y-%m}",
            "mac": kept.mac,
            "at": kept.dropped_at.isoformat(),
        }
    )


def check_heads(path: Path, note: Note) -> int:
    """Look in the database for everything in a file of heads; return how many lines it has."""
    if not path.exists():
        return 0
    seals = dict(AuditSeal.objects.values_list("id", "mac"))
    months = {f"{kept.month:%Y-%m}": kept.mac for kept in Retention.objects.all()}
    checked = 0
    with path.open(encoding="utf-8") as heads:
        for number, line in enumerate(heads, start=1):
            try:
                noted = json.loads(line)
                mac, at = noted["mac"], noted["at"]
                month, seal = noted.get("retained"), noted.get("seal")
                if month is None and seal is None:
                    raise KeyError("seal")
            except (ValueError, KeyError, TypeError, AttributeError):
                note(f"Line {number} of {path.name} cannot be read.")
                continue
            checked += 1
            if month is not None and months.get(month) != mac:
                note(f"The dropping of {month}, written down on {at}, is not in the database.")
            if month is None and seals.get(seal) != mac:
                note(f"Seal {seal}, written down on {at}, is not in the database.")
    return checked


def _export(head: Mapping[str, Any]) -> None:
    _append(json.dumps(head) + "\n")
    if settings.KAIZEN_AUDIT_HEAD_URL:
        _post(head)


def _append(line: str) -> None:
    path = head_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two workers may write at once, and one of them may be taking lines out.
    with (path.parent / "audit-head.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with path.open("a", encoding="utf-8") as heads:
            heads.write(line)
            size = heads.tell()
        if size > ROOM:
            _forget_oldest(path)


def _forget_oldest(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(lines) < 2 * KEPT:
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as heads:
        heads.writelines(lines[-KEPT:])
        heads.flush()
        os.fsync(heads.fileno())
    fresh.replace(path)


def _post(head: Mapping[str, Any]) -> None:
    """Send a head to whoever keeps it elsewhere; the next one speaks for a lost one."""
    try:
        answer = httpx.post(settings.KAIZEN_AUDIT_HEAD_URL, json=dict(head), timeout=POST_SECONDS)
        answer.raise_for_status()
    except httpx.HTTPError as failed:
        # Never the address: it may hold a secret of its own.
        log.warning("audit_head_not_sent", error=type(failed).__name__)

"""The partner that keeps a trail, lets it be changed, and says whether that was found."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from random import Random
from typing import Any

import django

django.setup()

from django.db import connection, transaction  # noqa: E402

from apps.audit import verifying  # noqa: E402
from apps.audit.heads import head_path  # noqa: E402
from apps.audit.sealing import seal_batch  # noqa: E402
from apps.audit.services import record  # noqa: E402
from apps.audit.verifying import walk  # noqa: E402
from apps.core.models import Blob  # noqa: E402
from benchmarks.audit.tamper import Tamperer  # noqa: E402
from benchmarks.outside import replace  # noqa: E402

TABLES = ("audit_auditrow", "audit_auditseal", "audit_sealedrow", "audit_retention")
SEALS, ROWS = 12, 30
NEW_TRAIL_EVERY = 250
TOLD = 10


class Undone(Exception):
    """Takes back whatever was done since the savepoint."""


def tamper(count: int, seed: int, broken: bool) -> dict[str, Any]:
    """Change a small trail so many times, and verify it whole after each."""
    chance = Random(seed)
    if broken:
        # A verdict that compares no codes: it sees what is gone, and nothing that was changed.
        replace(verifying, "same", lambda one, other: True)
    missed: list[str] = []
    ways: Counter[str] = Counter()
    done = 0
    while done < count:
        with transaction.atomic():
            _switch_triggers("DISABLE")
            _new_trail(chance)
            verdict = walk()
            if not verdict.sound:
                raise AssertionError(f"An untouched trail is not sound: {verdict.faults[:3]}")
            tamperer = Tamperer(chance)
            for _ in range(min(NEW_TRAIL_EVERY, count - done)):
                done += 1
                said, sound = _try(tamperer)
                ways[said.partition(":")[0]] += 1
                if sound:
                    missed.append(said)
            _switch_triggers("ENABLE")
    return {"tried": done, "ways": ways, "missed": len(missed), "examples": missed[:TOLD]}


def spoil(seed: int) -> dict[str, Any]:
    """Change the committed trail of this database once, for good."""
    with transaction.atomic():
        _switch_triggers("DISABLE")
        said = Tamperer(Random(seed)).tamper()
        _switch_triggers("ENABLE")
    return {"said": said}


def small_trail(seed: int) -> dict[str, Any]:
    """Write and seal a small committed trail."""
    with transaction.atomic():
        _new_trail(Random(seed))
    return {}


def large_trail(rows: int) -> dict[str, Any]:
    """Write many rows as the product does, in what they hold, and seal them all."""
    began = time.perf_counter()
    _empty()
    with connection.cursor() as cursor:
        cursor.execute(
            # A hundred rows a second, as they would come one after the other.
            "INSERT INTO audit_auditrow (at, actor, action, subject, outcome, digest,"
            " correlation_id, detail) SELECT"
            " now() - make_interval(secs => (%s - n) / 100.0), 'user:' || n %% 900, 'call.settled',"
            " 'call:' || gen_random_uuid(),"
            " 'ok', 'sha256:' || encode(sha256(n::text::bytea), 'hex'), md5((n / 7)::text),"
            " jsonb_build_object('tool', 'create_artifact', 'agent', 'agent-' || n %% 40, 'run',"
            " gen_random_uuid(), 'reason', '', 'rule', 'nothing_refuses')"
            " FROM generate_series(1, %s) AS n",
            [rows, rows],
        )
    wrote = time.perf_counter()
    sealed, since = 0, None
    while (batch := seal_batch(since=since)) is not None:
        sealed, since = sealed + batch[0].rows, batch[1]
    return {
        "sealed": sealed,
        "write_s": wrote - began,
        "seal_s": time.perf_counter() - wrote,
    }


def append(count: int) -> dict[str, Any]:
    """Time a durable transaction with a row of audit and without, in turn."""
    plain: list[float] = []
    audited: list[float] = []
    for number in range(count * 2):
        began = time.perf_counter()
        with transaction.atomic():
            Blob.objects.create(digest=f"sha256:{number:064x}", content=b"x", size=1)
            if number % 2:
                record(
                    actor="user:1",
                    action="thing.done",
                    subject=f"thing:{number}",
                    outcome="ok",
                    detail={"tool": "create_artifact", "agent": "scribe", "number": number},
                )
        (audited if number % 2 else plain).append((time.perf_counter() - began) * 1000)
    return {"plain": plain, "audited": audited}


def _try(tamperer: Tamperer) -> tuple[str, bool]:
    said, sound = "", True
    try:
        with transaction.atomic():
            said = tamperer.tamper()
            sound = walk().sound
            raise Undone
    except Undone:
        return said, sound


def _new_trail(chance: Random) -> None:
    """Begin anew with seals of different sizes, each with its line outside."""
    _empty()
    number = 0
    for _ in range(SEALS):
        for _ in range(chance.randint(2, ROWS)):
            number += 1
            record(
                actor=f"user:{chance.randint(1, 9)}",
                action=chance.choice(["call.settled", "run.started", "approval.approved"]),
                subject=f"call:{number}",
                outcome=chance.choice(["ok", "refused", ""]),
                digest=f"sha256:{chance.getrandbits(256):064x}",
                detail={"number": number, "words": "ä ≠ a", "tool": "create_artifact"},
            )
        seal_batch()


def _empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(TABLES)} CASCADE")
    head_path().unlink(missing_ok=True)


def _switch_triggers(word: str) -> None:
    with connection.cursor() as cursor:
        for table in TABLES:
            # Foreign keys are triggers too, and an owner switches them off with the rest.
            cursor.execute(f"ALTER TABLE {table} {word} TRIGGER ALL")


for line in sys.stdin:
    asked = json.loads(line)
    match asked.pop("what"):
        case "tamper":
            answer = tamper(**asked)
        case "spoil":
            answer = spoil(**asked)
        case "small_trail":
            answer = small_trail(**asked)
        case "large_trail":
            answer = large_trail(**asked)
        case "append":
            answer = append(**asked)
        case unknown:
            raise ValueError(f"Nobody knows how to {unknown}.")
    print(json.dumps(answer), flush=True)

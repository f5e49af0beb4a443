"""How may somebody who owns the tables change a sealed trail? One random way at a time.

Each way is SQL, as an owner of the tables would send it, with the refusing triggers switched off.
What is not sealed yet is left alone: the seals do not speak for it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from random import Random
from typing import Any

from django.db import connection

Way = Callable[["Tamperer"], str]
WAYS: list[Way] = []
TEXTS = ("actor", "action", "subject", "outcome", "digest", "correlation_id")


def way(function: Way) -> Way:
    """Register a way."""
    WAYS.append(function)
    return function


class Tamperer:
    """Draws rows and seals from a trail, and changes them."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.members: list[tuple[int, int]] = self.ask(
            "SELECT row_id, seal_id FROM audit_sealedrow ORDER BY row_id"
        )
        self.seals = [int(row[0]) for row in self.ask("SELECT id FROM audit_auditseal ORDER BY id")]

    def tamper(self) -> str:
        """Do one thing and say what."""
        chosen = self.chance.choice(WAYS)
        return f"{chosen.__name__.replace('_', ' ')}: {chosen(self)}"

    def ask(self, statement: str, *values: Any) -> list[Any]:
        """Read."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            return list(cursor.fetchall())

    def do(self, statement: str, *values: Any) -> None:
        """Write, and insist that something was written."""
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            if cursor.rowcount == 0:
                raise LookupError(f"Nothing was changed by {statement}")

    @property
    def row(self) -> int:
        """A sealed row."""
        return self.chance.choice(self.members)[0]

    @property
    def seal(self) -> int:
        """A seal."""
        return self.chance.choice(self.seals)

    def rows(self, count: int) -> list[int]:
        """Different sealed rows."""
        return [row for row, _ in self.chance.sample(self.members, count)]

    def word(self) -> str:
        """A word that stands nowhere."""
        return f"x{self.chance.getrandbits(40):x}"

    def mac(self) -> str:
        """A code that looks like one: at random, or made under another key."""
        if self.chance.random() < 0.5:
            return f"{self.chance.getrandbits(256):064x}"
        return hmac.new(b"another key", self.word().encode(), hashlib.sha256).hexdigest()


@way
def a_text_is_edited(t: Tamperer) -> str:
    row, column = t.row, t.chance.choice(TEXTS)
    t.do(f"UPDATE audit_auditrow SET {column} = %s WHERE id = %s", t.word(), row)  # noqa: S608
    return f"{column} of {row}"


@way
def one_letter_is_edited(t: Tamperer) -> str:
    row = t.row
    t.do("UPDATE audit_auditrow SET action = action || ' ' WHERE id = %s", row)
    return f"{row}"


@way
def the_detail_is_edited(t: Tamperer) -> str:
    row = t.row
    edits = (
        "jsonb_set(detail, '{number}', '-1')",
        "detail || '{\"more\": true}'",
        "detail - 'number'",
        "jsonb_set(detail, '{number}', to_jsonb(detail->>'number'))",
    )
    edit = t.chance.choice(edits)
    t.do(f"UPDATE audit_auditrow SET detail = {edit} WHERE id = %s", row)  # noqa: S608
    return f"{edit} of {row}"


@way
def the_moment_is_edited(t: Tamperer) -> str:
    row = t.row
    microseconds = t.chance.choice([1, 1_000, 3_600_000_000, -1])
    t.do(
        "UPDATE audit_auditrow SET at = at + make_interval(secs => %s / 1e6) WHERE id = %s",
        microseconds,
        row,
    )
    return f"{row} by {microseconds} µs"


@way
def a_row_is_deleted(t: Tamperer) -> str:
    row = t.row
    t.do("DELETE FROM audit_auditrow WHERE id = %s", row)
    return f"{row}"


@way
def a_row_is_deleted_with_its_membership(t: Tamperer) -> str:
    row = t.row
    t.do("DELETE FROM audit_auditrow WHERE id = %s", row)
    t.do("DELETE FROM audit_sealedrow WHERE row_id = %s", row)
    if t.chance.random() < 0.5:
        t.do(
            "UPDATE audit_auditseal SET rows = rows - 1 WHERE id = %s",
            dict(t.members)[row],
        )
    return f"{row}"


@way
def two_rows_change_places(t: Tamperer) -> str:
    one, other = t.rows(2)
    t.do("UPDATE audit_auditrow SET id = -1 WHERE id = %s", one)
    t.do("UPDATE audit_auditrow SET id = %s WHERE id = %s", one, other)
    t.do("UPDATE audit_auditrow SET id = %s WHERE id = -1", other)
    return f"{one} and {other}"


@way
def two_rows_change_moments(t: Tamperer) -> str:
    one, other = t.rows(2)
    t.do(
        "UPDATE audit_auditrow r SET at = o.at FROM audit_auditrow o"
        " WHERE (r.id, o.id) IN ((%s, %s), (%s, %s))",
        one, other, other, one,
    )  # fmt: skip
    return f"{one} and {other}"


@way
def two_rows_change_seals(t: Tamperer) -> str:
    one, other = t.rows(2)
    seals = dict(t.members)
    while seals[one] == seals[other]:
        one, other = t.rows(2)
    t.do("UPDATE audit_sealedrow SET seal_id = %s WHERE row_id = %s", seals[other], one)
    t.do("UPDATE audit_sealedrow SET seal_id = %s WHERE row_id = %s", seals[one], other)
    return f"{one} and {other}"


@way
def a_row_moves_to_another_seal(t: Tamperer) -> str:
    row = t.row
    others = [seal for seal in t.seals if seal != dict(t.members)[row]]
    seal = t.chance.choice(others)
    t.do("UPDATE audit_sealedrow SET seal_id = %s WHERE row_id = %s", seal, row)
    return f"{row} to {seal}"


@way
def a_row_is_slipped_under_a_seal(t: Tamperer) -> str:
    seal = t.seal
    copied = t.chance.random() < 0.5
    ((fresh,),) = t.ask(
        "INSERT INTO audit_auditrow (at, actor, action, subject, outcome, digest, correlation_id,"
        " detail) SELECT at, actor, CASE WHEN %s THEN action ELSE 'thing.invented' END, subject,"
        " outcome, digest, correlation_id, detail FROM audit_auditrow WHERE id = %s RETURNING id",
        copied,
        t.row,
    )
    t.do("INSERT INTO audit_sealedrow (row_id, seal_id) VALUES (%s, %s)", fresh, seal)
    if t.chance.random() < 0.5:
        t.do("UPDATE audit_auditseal SET rows = rows + 1 WHERE id = %s", seal)
    return f"{fresh} under {seal}"


@way
def a_row_takes_the_place_of_another(t: Tamperer) -> str:
    one, other = t.rows(2)
    t.do("DELETE FROM audit_auditrow WHERE id = %s", one)
    t.do(
        "INSERT INTO audit_auditrow (id, at, actor, action, subject, outcome, digest,"
        " correlation_id, detail) SELECT %s, at, actor, action, subject, outcome, digest,"
        " correlation_id, detail FROM audit_auditrow WHERE id = %s",
        one,
        other,
    )
    return f"{one} by {other}"


@way
def a_row_is_doubled_under_its_number(t: Tamperer) -> str:
    row = t.row
    t.do(
        "INSERT INTO audit_auditrow (id, at, actor, action, subject, outcome, digest,"
        " correlation_id, detail) SELECT id, at + interval '1 second', actor, action, subject,"
        " outcome, digest, correlation_id, detail FROM audit_auditrow WHERE id = %s",
        row,
    )
    return f"{row}"


@way
def the_tail_is_cut(t: Tamperer) -> str:
    seal = t.seal
    t.do(
        "DELETE FROM audit_auditrow r USING audit_sealedrow s"
        " WHERE s.row_id = r.id AND s.seal_id >= %s",
        seal,
    )
    t.do("DELETE FROM audit_sealedrow WHERE seal_id >= %s", seal)
    t.do("DELETE FROM audit_auditseal WHERE id >= %s", seal)
    return f"from {seal}"


@way
def the_head_is_cut(t: Tamperer) -> str:
    seal = t.chance.choice(t.seals[1:])
    t.do(
        "DELETE FROM audit_auditrow r USING audit_sealedrow s"
        " WHERE s.row_id = r.id AND s.seal_id < %s",
        seal,
    )
    t.do("DELETE FROM audit_sealedrow WHERE seal_id < %s", seal)
    t.do("DELETE FROM audit_auditseal WHERE id < %s", seal)
    if t.chance.random() < 0.5:
        t.do("UPDATE audit_auditseal SET previous_mac = '' WHERE id = %s", seal)
    return f"up to {seal}"


@way
def a_seal_is_taken_out(t: Tamperer) -> str:
    seal = t.seal
    if t.chance.random() < 0.5:
        t.do(
            "DELETE FROM audit_auditrow r USING audit_sealedrow s"
            " WHERE s.row_id = r.id AND s.seal_id = %s",
            seal,
        )
    t.do("DELETE FROM audit_sealedrow WHERE seal_id = %s", seal)
    t.do("DELETE FROM audit_auditseal WHERE id = %s", seal)
    return f"{seal}"


@way
def two_seals_change_codes(t: Tamperer) -> str:
    one, other = t.chance.sample(t.seals, 2)
    macs = dict(t.ask("SELECT id, mac FROM audit_auditseal WHERE id IN (%s, %s)", one, other))
    for seal, mac in ((one, "between"), (other, macs[one]), (one, macs[other])):
        t.do("UPDATE audit_auditseal SET mac = %s WHERE id = %s", mac, seal)
    return f"{one} and {other}"


@way
def two_seals_change_rows(t: Tamperer) -> str:
    one, other = t.chance.sample(t.seals, 2)
    t.do(
        "UPDATE audit_sealedrow SET seal_id = CASE seal_id WHEN %s THEN %s ELSE %s END"
        " WHERE seal_id IN (%s, %s)",
        one, other, one, one, other,
    )  # fmt: skip
    return f"{one} and {other}"


@way
def a_code_is_changed(t: Tamperer) -> str:
    seal = t.seal
    mac = t.mac()
    t.do("UPDATE audit_auditseal SET mac = %s WHERE id = %s", mac, seal)
    if t.chance.random() < 0.5:
        # Even the chain is mended, as far as somebody without the key can.
        following = [one for one in t.seals if one > seal][:1]
        for one in following:
            t.do("UPDATE audit_auditseal SET previous_mac = %s WHERE id = %s", mac, one)
    return f"{seal}"


@way
def a_seals_own_words_are_changed(t: Tamperer) -> str:
    seal = t.seal
    edit = t.chance.choice(
        [
            "rows = rows + 1",
            "rows = rows - 1",
            "sealed_at = sealed_at + interval '1 microsecond'",
            "previous_mac = reverse(mac)",
        ]
    )
    t.do(f"UPDATE audit_auditseal SET {edit} WHERE id = %s", seal)  # noqa: S608
    return f"{edit} of {seal}"


@way
def an_edited_row_is_sealed_anew_without_the_key(t: Tamperer) -> str:
    row = t.row
    seal = dict(t.members)[row]
    t.do("UPDATE audit_auditrow SET actor = %s WHERE id = %s", t.word(), row)
    mac = t.mac()
    t.do("UPDATE audit_auditseal SET mac = %s WHERE id = %s", mac, seal)
    t.ask(
        "UPDATE audit_auditseal SET previous_mac = %s WHERE id ="
        " (SELECT min(id) FROM audit_auditseal WHERE id > %s) RETURNING id",
        mac,
        seal,
    )
    return f"{row} under {seal}"


@way
def a_seal_is_invented(t: Tamperer) -> str:
    t.do(
        "INSERT INTO audit_auditseal (sealed_at, rows, previous_mac, mac)"
        " SELECT now(), 0, mac, %s FROM audit_auditseal ORDER BY id DESC LIMIT 1",
        t.mac(),
    )
    return "behind the last"


@way
def a_dropped_month_is_invented(t: Tamperer) -> str:
    row = t.row
    t.do("DELETE FROM audit_auditrow WHERE id = %s", row)
    t.do(
        "INSERT INTO audit_retention (month, dropped_at, rows, ids, remainders, previous_mac, mac)"
        " VALUES ('2001-01-01', now(), 1, jsonb_build_array(jsonb_build_array(%s::bigint, %s)),"
        " '[]', '', %s)",
        row,
        row,
        t.mac(),
    )
    return f"for {row}"


@way
def everything_is_emptied(t: Tamperer) -> str:
    for table in ("audit_sealedrow", "audit_auditseal", "audit_auditrow"):
        t.do(f"DELETE FROM {table}")  # noqa: S608 - names of ours
    return "rows, seals and memberships"

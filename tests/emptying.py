"""How does a test that commits leave an empty database? By what it wrote, not by every table.

Django truncates all tables after each such test and makes every permission again: some hundred
files and some hundred statements for a handful of rows. Here one statement asks which tables have
rows, and those are emptied. Foreign keys are checked at the commit, so the order does not matter.
"""

from functools import cache
from typing import LiteralString

from django.apps import apps
from django.db import connection, transaction
from psycopg.sql import SQL, Composed, Identifier

KEPT = {"django_migrations", "django_content_type", "auth_permission"}
"""Made by the migrations for what the models are; no test changes them."""


def empty_database(_: object = None) -> None:
    """Empty every table that has rows, but those that only describe the models."""
    names, appended = _tables()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(SQL("SELECT {}").format(_each(SQL("EXISTS (SELECT FROM {})"), names, ", ")))
        filled = {name for name, rows in zip(names, cursor.fetchone(), strict=True) if rows}
        deleted = sorted(filled - appended)
        if deleted:
            cursor.execute(_each(SQL("DELETE FROM {}"), deleted, "; "))
        if filled & appended:
            cursor.execute(SQL("TRUNCATE {}").format(_each(SQL("{}"), sorted(appended), ", ")))


@cache
def _tables() -> tuple[list[str], frozenset[str]]:
    """Return all tables that tests fill, and those of them whose triggers let no row be deleted."""
    models = apps.get_models(include_auto_created=True)
    names = {model._meta.db_table for model in models if model._meta.managed} - KEPT
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal"
        )
        guarded = {name for (name,) in cursor.fetchall()}
    return sorted(names), frozenset(names & guarded)


def _each(form: SQL, tables: list[str], between: LiteralString) -> Composed:
    return SQL(between).join(form.format(Identifier(table)) for table in tables)

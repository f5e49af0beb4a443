"""How is a statement that every call needs made once, and not again at every call?

Building a query costs far more than sending it. `Prepared` compiles a query set once and runs it
with other values; `insert` writes a new row with a statement made once for its table. Both let
PostgreSQL keep the plan. What they read and write is what the query set and the model say.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.expressions import DatabaseDefault
from django.db.models.query import get_related_populators
from psycopg import sql

M = TypeVar("M", bound=Model)


class Given(Expression):
    """A value that a prepared query is given at each run, by name."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        """Stand for the value that comes later."""
        return "%s", [_Place(self.name, self.output_field)]


class _Place:
    """Where a given value belongs among the values of a statement."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        self._name = name
        self._field = field

    def value(self, values: dict[str, Any], connection: Any) -> Any:
        return self._field.get_db_prep_value(values[self._name], connection)


class Prepared(Generic[M]):
    """One query of whole rows, compiled at its first run."""

    def __init__(self, make: Callable[[], QuerySet[M]]) -> None:
        self._make = make
        self._made: _Compiled | None = None

    def first(self, **values: Any) -> M | None:
        """Run the query and return its first row."""
        return next(iter(self.all(**values)), None)

    def all(self, **values: Any) -> list[M]:
        """Run the query and return its rows."""
        # Two threads may both compile it at first; either result serves.
        made = self._made = self._made or _Compiled(self._make().query)
        return made.run(values)


class _Compiled:
    """What Django's compiler said about a query, and how it makes a row into an instance."""

    def __init__(self, query: Any) -> None:
        compiler = query.get_compiler(connection=connections[DEFAULT_DB_ALIAS])
        text, self._places = compiler.as_sql()
        self._sql = _numbered(text)
        kinds = compiler.klass_info
        first, *_, last = kinds["select_fields"]
        self._own = slice(first, last + 1)
        self._model = kinds["model"]
        self._fields = [column[0].target.attname for column in compiler.select[self._own]]
        related: Any = get_related_populators
        self._related = related(kinds, compiler.select, DEFAULT_DB_ALIAS)
        self._annotations = list(compiler.annotation_col_map.items())
        self._converters = [
            (place, convert, expression)
            for place, (converters, expression) in compiler.get_converters(
                [column[0] for column in compiler.select]
            ).items()
            for convert in converters
        ]

    def run(self, values: dict[str, Any]) -> list[Any]:
        current = connections[DEFAULT_DB_ALIAS]
        rows = run(
            self._sql,
            [
                place.value(values, current) if isinstance(place, _Place) else place
                for place in self._places
            ],
        )
        return [self._instance(list(row), current) for row in rows]

    def _instance(self, row: list[Any], current: Any) -> Any:
        for place, convert, expression in self._converters:
            row[place] = convert(row[place], expression, current)
        made = self._model.from_db(DEFAULT_DB_ALIAS, self._fields, row[self._own])
        for related in self._related:
            related.populate(row, made)
        for name, place in self._annotations:
            setattr(made, name, row[place])
        return made


def _numbered(text: str) -> str:
    """Return a statement of Django's with the server's own placeholders."""
    numbers = itertools.count(1)
    return _MARK.sub(lambda mark: "%" if mark[0] == "%%" else f"${next(numbers)}", text)


_MARK = re.compile("%%|%s")


def run(statement: str, values: Sequence[Any], *, then_commit: bool = False) -> list[Any]:
    """Run one statement whose plan the server keeps, and return its rows.

    It names its values as the server does: $1, $2 and so on. As the very last statement of a
    transaction it may take the commit along: what it locks is then held for no round trip more.
    """
    current = connections[DEFAULT_DB_ALIAS]
    current.ensure_connection()
    with current.wrap_database_errors:
        bare: Any = psycopg.RawCursor(current.connection)
    # Counted and logged as Django does; a prepared statement does not remember its own text.
    told = (
        current.make_debug_cursor(bare).debug_sql(statement, values)
        if current.queries_logged
        else nullcontext()
    )
    with current.make_cursor(bare) as cursor:
        with told:
            if then_commit and is_outermost():
                with current.wrap_database_errors, current.connection.pipeline():
                    cursor.execute(statement, values)
                    # Django commits once more when its block ends, which then does nothing.
                    current.connection.commit()
            else:
                cursor.execute(statement, values)
        return cursor.fetchall() if bare.pgresult.nfields else []


def is_outermost() -> bool:
    """Tell whether the innermost open block is the whole transaction, which may be committed."""
    current = connections[DEFAULT_DB_ALIAS]
    return bool(
        current.in_atomic_block
        and current.commit_on_exit
        and not current.savepoint_ids
        and not current.needs_rollback
    )


def insert(row: Model) -> None:
    """Write a new row, as saving it would, and take over what the database filled in."""
    model = type(row)
    filled = tuple(
        field
        for field in model._meta.concrete_fields
        if isinstance(getattr(row, field.attname), DatabaseDefault)
        or (field.db_returning and getattr(row, field.attname) is None)
    )
    given, statement = _insertion(model, filled)
    current = connections[DEFAULT_DB_ALIAS]
    returned = run(
        statement, [field.get_db_prep_save(field.pre_save(row, True), current) for field in given]
    )
    for field, value in zip(filled, returned[0] if filled else (), strict=True):
        setattr(row, field.attname, value)
    row._state.adding = False
    row._state.db = DEFAULT_DB_ALIAS


@functools.lru_cache(maxsize=64)
def _insertion(model: type[Model], filled: tuple[Any, ...]) -> tuple[list[Any], str]:
    """Return which fields are written, and the statement that writes them."""
    given: list[Any] = [field for field in model._meta.concrete_fields if field not in filled]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(model._meta.db_table),
        sql.SQL(", ").join(sql.Identifier(field.column) for field in given),
        sql.SQL(", ").join(sql.Placeholder() for _ in given),
    )
    if filled:
        columns = sql.SQL(", ").join(sql.Identifier(field.column) for field in filled)
        statement += sql.SQL(" RETURNING {}").format(columns)
    return given, _numbered(statement.as_string())

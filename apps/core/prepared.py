"""How is a statement that every call needs made once, and not again at every call?

Building a query costs far more than sending it. `Prepared` compiles a query set once and runs it
with other values; `insert` writes a new row with a statement made once for its table. Both let
PostgreSQL keep the plan. What they read and write is what the query set and the model say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.expressions import DatabaseDefault
from django.db.models.query import ModelIterable
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
        self.name = name
        self._field = field

    def of(self, values: dict[str, Any]) -> Any:
        return self._field.get_db_prep_value(values[self.name], connection)


class Prepared(Generic[M]):
    """One query of whole rows, compiled at its first run."""

    def __init__(self, make: Callable[[], QuerySet[M]]) -> None:
        self._make = make
        self._made: _Compiled | None = None

    def first(self, **values: Any) -> M | None:
        """Run the query and return its first row."""
        # Two threads may both compile it at first; either result serves.
        made = self._made = self._made or _Compiled(self._make().query)
        rows: Any = ModelIterable(_Run(made, values))  # type: ignore[arg-type]
        return next(iter(rows), None)


class _Compiled:
    """What Django's compiler said about a query, kept."""

    def __init__(self, query: Any) -> None:
        self.compiler = query.get_compiler(connection=connection)
        self.sql, self.places = self.compiler.as_sql()


class _Run:
    """One run of a compiled query, as the part of a query set that makes instances reads it."""

    db = DEFAULT_DB_ALIAS
    _known_related_objects: dict[Any, Any] = {}

    def __init__(self, made: _Compiled, values: dict[str, Any]) -> None:
        self._made = made
        self._values = values
        self.query = self
        compiler = made.compiler
        self.select = compiler.select
        self.klass_info = compiler.klass_info
        self.annotation_col_map = compiler.annotation_col_map

    def get_compiler(self, **_: Any) -> _Run:
        return self

    def execute_sql(self, **_: Any) -> list[Any]:
        places = [
            place.of(self._values) if isinstance(place, _Place) else place
            for place in self._made.places
        ]
        return [run(self._made.sql, places)]

    def results_iter(self, results: Any) -> Any:
        return self._made.compiler.results_iter(results)


def run(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Run one statement whose plan the server keeps, and return its rows."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        bare: Any = psycopg.Cursor(connection.connection)
    # Counted and logged as Django does; a prepared statement does not remember its own text.
    told = (
        connection.make_debug_cursor(bare).debug_sql(statement, values)
        if connection.queries_logged
        else nullcontext()
    )
    with connection.make_cursor(bare) as cursor:
        with told:
            cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description is not None else []


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
    returned = run(
        statement,
        [field.get_db_prep_save(field.pre_save(row, True), connection) for field in given],
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
    return given, statement.as_string()

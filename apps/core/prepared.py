"""How is a statement that every call needs made once, and not again at every call?

Building a query costs far more than sending it. `Prepared` compiles a query set once and runs it
with other values, and `Change` does the same for its update; `insert` writes a new row with a
statement made once for its table. All let PostgreSQL keep the plan. What they read and write is
what the query set and the model say.

What nobody waits for need not be sent on its own: `both` asks two queries at once, `insert_last`
leaves a row to the end of a transaction that gathers such rows.
"""

from __future__ import annotations

import functools
import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import BooleanField, Expression, Field, Func, Model, QuerySet
from django.db.models.base import ModelState
from django.db.models.expressions import DatabaseDefault
from django.db.models.query import get_related_populators
from django.db.models.signals import post_init, pre_init
from django.db.models.sql.subqueries import UpdateQuery
from psycopg import sql

from apps.core.wire import Rows, Statement, exchange, is_outermost

M = TypeVar("M", bound=Model)
N = TypeVar("N", bound=Model)


class Given(Expression):
    """A value that a prepared query is given at each run, by name."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        """Stand for the value that comes later."""
        return "%s", [_Place(self.name, self.output_field)]


def given_fields(model: type[Model], *names: str) -> dict[str, Given]:
    """Return a given value for each of these fields, by its name."""
    known = {field.name: field for field in model._meta.concrete_fields}
    return {name: Given(name, known[name]) for name in names}


class _Place:
    """Where a given value belongs among the values of a statement."""

    def __init__(self, name: str, field: Field[Any, Any]) -> None:
        self._name = name
        self._field = field

    def value(self, values: dict[str, Any], connection: Any) -> Any:
        # As they are saved: there nothing is NULL, where a JSON value would be null.
        return self._field.get_db_prep_save(values[self._name], connection)


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
        asked = self.asked(**values)
        return asked.read(exchange([asked.statement])[0])

    def asked(self, **values: Any) -> Asked[M]:
        """Return the query with its values, to be run with another."""
        # Two threads may both compile it at first; either result serves.
        made = self._made = self._made or _Compiled(self._make().query)
        return Asked(made.statement(values), made.read)


@dataclass(frozen=True, slots=True)
class Asked(Generic[M]):
    """A query with its values, and what makes its rows into instances."""

    statement: Statement
    read: Callable[[Rows], list[M]]


def both(one: Asked[M], other: Asked[N]) -> tuple[list[M], list[N]]:
    """Run two queries in one round trip; the second sees what was committed before its turn."""
    these, those = exchange([one.statement, other.statement])
    return one.read(these), other.read(those)


class Change:
    """One conditional update, compiled at its first run. Its values may be `Given` as well."""

    def __init__(
        self,
        make: Callable[[], QuerySet[Any]],
        changes: Mapping[str, Any],
        *,
        returning: Sequence[str] = (),
    ) -> None:
        self._make = make
        self._changes = dict(changes)
        self._returning = returning
        self._made: tuple[bytes, tuple[Any, ...]] | None = None

    def run(self, **values: Any) -> list[Any]:
        """Run the update and return a tuple of what it returns for each row that it changed."""
        text, places = self._made = self._made or self._compiled()
        current = connections[DEFAULT_DB_ALIAS]
        return exchange([Statement(text, [_value(one, values, current) for one in places])])[0]

    def _compiled(self) -> tuple[bytes, tuple[Any, ...]]:
        query: Any = self._make().query.chain(UpdateQuery)
        query.add_update_values(self._changes)
        text, places = query.get_compiler(connection=connections[DEFAULT_DB_ALIAS]).as_sql()
        options = query.get_meta()
        fields = [options.get_field(name) for name in self._returning] or [options.pk]
        returned = ", ".join(f'"{options.db_table}"."{field.column}"' for field in fields)
        return _numbered(f"{text} RETURNING {returned}"), places


class NotOnDisk(Func):
    """True, and whoever asks in a statement that commits by itself does not wait for the disk."""

    template = "set_config('synchronous_commit', 'off', true) = 'off'"
    output_field = BooleanField()
    arity = 0


def _value(place: Any, values: dict[str, Any], current: Any) -> Any:
    return place.value(values, current) if isinstance(place, _Place) else place


class _Compiled:
    """What Django's compiler said about a query, and how it makes a row into an instance."""

    def __init__(self, query: Any) -> None:
        compiler = query.get_compiler(connection=connections[DEFAULT_DB_ALIAS])
        text, self._places = compiler.as_sql()
        self._text = _numbered(text)
        kinds = compiler.klass_info
        first, *_, last = kinds["select_fields"]
        self._own = slice(first, last + 1)
        self._rows = _Rows(kinds["model"])
        self._fields = [column[0].target.attname for column in compiler.select[self._own]]
        related: Any = get_related_populators
        self._related = related(kinds, compiler.select, DEFAULT_DB_ALIAS)
        for populator in self._related:
            _fill_quickly(populator)
        self._annotations = list(compiler.annotation_col_map.items())
        self._converters = [
            (place, convert, expression)
            for place, (converters, expression) in compiler.get_converters(
                [column[0] for column in compiler.select]
            ).items()
            for convert in converters
        ]

    def statement(self, values: dict[str, Any]) -> Statement:
        current = connections[DEFAULT_DB_ALIAS]
        return Statement(self._text, [_value(place, values, current) for place in self._places])

    def read(self, rows: Rows) -> list[Any]:
        current = connections[DEFAULT_DB_ALIAS]
        return [self._instance(list(row), current) for row in rows]

    def _instance(self, row: list[Any], current: Any) -> Any:
        for place, convert, expression in self._converters:
            row[place] = convert(row[place], expression, current)
        made = self._rows.from_db(DEFAULT_DB_ALIAS, self._fields, row[self._own])
        for related in self._related:
            related.populate(row, made)
        for name, place in self._annotations:
            setattr(made, name, row[place])
        return made


class _Rows:
    """Makes rows of a model into instances, as the model's own `from_db` does.

    Where the model has a say in that, or somebody listens to it, the model does it itself.
    """

    def __init__(self, model: type[Model]) -> None:
        self._model = model
        whose: Any = model
        self._plain = (
            whose.__init__ is Model.__init__
            and whose.from_db.__func__ is Model.__dict__["from_db"].__func__
            and not (pre_init.has_listeners(model) or post_init.has_listeners(model))
        )

    def from_db(self, using: str, fields: Sequence[str], values: Sequence[Any]) -> Any:
        """Return the instance of one row."""
        if not self._plain:
            return self._model.from_db(using, fields, values)
        made = self._model.__new__(self._model)
        state = ModelState()
        state.adding, state.db = False, using
        # A field that was not asked for is read when somebody looks at it, like any deferred one.
        made.__dict__.update(zip(fields, values, strict=True), _state=state)
        return made


def _fill_quickly(populator: Any) -> None:
    populator.model_cls = _Rows(populator.model_cls)
    for below in populator.related_populators:
        _fill_quickly(below)


def _numbered(text: str) -> bytes:
    """Return a statement of Django's with the server's own placeholders."""
    numbers = itertools.count(1)
    return _MARK.sub(lambda mark: "%" if mark[0] == "%%" else f"${next(numbers)}", text).encode()


_MARK = re.compile("%%|%s")


def insert(row: Model) -> None:
    """Write a new row, as saving it would, and take over what the database filled in."""
    new = _new(row)
    new.done(exchange([new.statement])[0])


def insert_last(row: Model) -> None:
    """Write a new row that nothing reads back in this transaction: with what ends it, or now."""
    if _write_last(_new(row)):
        # Whoever changes it from here on finds no row, instead of writing a second one.
        row._state.adding = False


def send_last(statement: Statement) -> None:
    """Send a statement whose effect nothing reads back: with what ends the transaction, or now."""
    _write_last(Last(statement))


@contextmanager
def gathering() -> Iterator[list[Last]]:
    """Gather what is written last in a list, which whoever opened this block sends."""
    last: list[Last] = []
    token = _gathered.set(last)
    try:
        yield last
    finally:
        _gathered.reset(token)


@dataclass(frozen=True, slots=True)
class Last:
    """A statement that may wait for the end of its transaction, and what hears its rows."""

    statement: Statement
    done: Callable[[Rows], None] = lambda _: None


_gathered: ContextVar[list[Last] | None] = ContextVar("written_last", default=None)


def _write_last(last: Last) -> bool:
    """Leave something for the end, or do it now; inside a savepoint, which may be undone, now."""
    gathered = _gathered.get()
    if gathered is not None and is_outermost():
        gathered.append(last)
        return True
    last.done(exchange([last.statement])[0])
    return False


def _new(row: Model) -> Last:
    """Return the statement that writes a new row, and takes over what the database filled in."""
    model = type(row)
    filled = tuple(
        field
        for field in _fillable(model)
        if isinstance(getattr(row, field.attname), DatabaseDefault)
        or (field.db_returning and getattr(row, field.attname) is None)
    )
    given, text = _insertion(model, filled)
    current = connections[DEFAULT_DB_ALIAS]

    def written(returned: Rows) -> None:
        for field, value in zip(filled, returned[0] if filled else (), strict=True):
            setattr(row, field.attname, value)
        row._state.adding = False
        row._state.db = DEFAULT_DB_ALIAS

    return Last(Statement(text, _values(given, row, current)), written)


@functools.lru_cache(maxsize=64)
def _fillable(model: type[Model]) -> tuple[Any, ...]:
    """Return the fields that the database may fill in where nothing is said."""
    fields: tuple[Any, ...] = tuple(model._meta.concrete_fields)
    return tuple(field for field in fields if field.db_returning or field.has_db_default())


@functools.lru_cache(maxsize=64)
def _insertion(
    model: type[Model], filled: tuple[Any, ...]
) -> tuple[list[tuple[Any, type[Any] | None, bool]], bytes]:
    """Return which fields are written, what each takes as it is, and the statement for them.

    A field takes one type as it is, or none, and some take nothing at all as it is.
    """
    given: list[Any] = [field for field in model._meta.concrete_fields if field not in filled]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(model._meta.db_table),
        sql.SQL(", ").join(sql.Identifier(field.column) for field in given),
        sql.SQL(", ").join(sql.Placeholder() for _ in given),
    )
    if filled:
        columns = sql.SQL(", ").join(sql.Identifier(field.column) for field in filled)
        statement += sql.SQL(" RETURNING {}").format(columns)
    taken = [
        (field, _taken_as_it_is(field), type(field).pre_save is Field.pre_save) for field in given
    ]
    return taken, _numbered(statement.as_string())


_AS_IT_IS: dict[type[Any], type[Any]] = {
    models.CharField: str,
    models.TextField: str,
    models.UUIDField: uuid.UUID,
    models.BooleanField: bool,
    models.DateTimeField: datetime,
}


def _taken_as_it_is(field: Any) -> type[Any] | None:
    """Return the type whose values a field neither changes nor fills in before they are written."""
    if type(field).pre_save is not Field.pre_save and type(field) is not models.DateTimeField:
        return None
    if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False):
        return None
    target = field.target_field if isinstance(field, models.ForeignKey) else field
    return _AS_IT_IS.get(type(target))


def _values(
    given: Sequence[tuple[Any, type[Any] | None, bool]], row: Model, current: Any
) -> list[Any]:
    """Return what a row writes, each value as its field hands it to the driver."""
    values: list[Any] = []
    for field, plain, nothing in given:
        value = getattr(row, field.attname)
        # Exactly this type: what derives from it may be written in another way.
        as_it_is = type(value) is plain and not (plain is datetime and value.tzinfo is None)
        if not (as_it_is or (nothing and value is None)):
            value = field.get_db_prep_save(field.pre_save(row, True), current)
        values.append(value)
    return values

"""Is this a schema that we can keep our word on, and does this value satisfy it?

Two independent libraries stand behind the two questions: one checks the schema against its
meta-schema, the other compiles it and judges values. Neither ever fetches anything.
"""

import json
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urldefrag, urljoin

import jsonschema_rs
from jsonschema import (  # type: ignore[import-untyped]
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    FormatChecker,
)
from jsonschema.exceptions import SchemaError as MetaSchemaError  # type: ignore[import-untyped]

from apps.domain.canonical import NotCanonical, canonical_json, pointer
from apps.domain.schema_cost import Cost, TooCostly, cost_of, longest_text
from apps.domain.schema_errors import MAX_ERRORS, SchemaError, as_schema_error
from apps.domain.schema_graph import LeadsNowhere
from apps.domain.schema_words import (
    DIALECTS,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    OUR_KEYWORDS,
    PARTNERS,
    REFERENCES,
    subschemas,
)
from apps.domain.words import shown

__all__ = [
    "DIALECTS",
    "DRAFT_6",
    "DRAFT_7",
    "DRAFT_2019_09",
    "DRAFT_2020_12",
    "MAX_DECLARATION_BYTES",
    "MAX_SCHEMA_BYTES",
    "BadSchema",
    "SchemaError",
    "Validator",
    "check_schema",
    "compile_schema",
    "compile_text",
    "dialect_of",
]

# What comes from outside stays below 64 KiB; what is part of the program may be as large as a whole
# declaration.
MAX_SCHEMA_BYTES: Final = 64 * 1024 - 1
MAX_DECLARATION_BYTES: Final = 8 * 1024 * 1024
# The check against the meta-schema takes about a millisecond for each schema inside a schema.
MAX_SUBSCHEMAS: Final = 2_000
MAX_SCHEMA_DEPTH: Final = 64
_CACHED_VALIDATORS: Final = 512
# A pattern that needs more steps than this fails its value instead of holding a worker.
_BACKTRACK_LIMIT: Final = 100_000
MAX_BACKTRACKED_TEXT: Final = 4_096
_DFA_BYTES: Final = 1024 * 1024

_META: Final = {
    DRAFT_2020_12: Draft202012Validator,
    DRAFT_2019_09: Draft201909Validator,
    DRAFT_7: Draft7Validator,
    DRAFT_6: Draft6Validator,
}
_ENGINES: Final = {
    DRAFT_2020_12: jsonschema_rs.Draft202012Validator,
    DRAFT_2019_09: jsonschema_rs.Draft201909Validator,
    DRAFT_7: jsonschema_rs.Draft7Validator,
    DRAFT_6: jsonschema_rs.Draft6Validator,
}
# Patterns are judged by the engine that will run them, so the meta-check leaves formats alone.
_NO_FORMATS: Final = FormatChecker(formats=())


class BadSchema(ValueError):
    """A schema that may not be used: the rule it broke, a bounded message, and where."""

    def __init__(self, rule: str, message: str, path: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path[:200]


class Validator:
    """A compiled schema that tells what is wrong with a value, without quoting the value.

    It never changes, so any number of threads may use one.
    """

    __slots__ = ("_backtracks", "_cost", "_engine")

    def __init__(
        self, engine: jsonschema_rs.Validator, cost: Cost | None, *, backtracks: bool
    ) -> None:
        self._engine = engine
        self._cost = cost
        self._backtracks = backtracks

    def is_valid(self, instance: Any) -> bool:
        """Tell whether a value satisfies the schema; what is too large to be judged does not."""
        return self._affords(instance) and self._engine.is_valid(instance)

    def errors(self, instance: Any, *, limit: int = MAX_ERRORS) -> list[SchemaError]:
        """Return at most five (or so many) bounded errors; none means that the value is valid."""
        if not self._affords(instance):
            return [SchemaError("", "", "cost", "has too many parts to be judged by its schema.")]
        if self._engine.is_valid(instance):
            return []
        explained = "all" if self._cost is None else self._cost.explains(instance)
        if explained == "all":
            return self._first(instance, limit)
        if explained == "first":
            try:
                self._engine.validate(instance)
            except jsonschema_rs.ValidationError as error:
                return [as_schema_error(error)]
        text = "does not satisfy its schema, and has too many parts for the reasons to be found."
        return [SchemaError("", "", "schema", text)]

    def _affords(self, instance: Any) -> bool:
        if self._cost is not None and not self._cost.judges(instance):
            return False
        return not self._backtracks or longest_text(instance) <= MAX_BACKTRACKED_TEXT

    def _first(self, instance: Any, limit: int) -> list[SchemaError]:
        found: list[SchemaError] = []
        for error in self._engine.iter_errors(instance):
            found.append(as_schema_error(error))
            if len(found) == limit:
                break
        return found


def dialect_of(schema: Any) -> str:
    """Return the dialect that a schema declares, or 2020-12 when it declares none."""
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    if declared is None:
        return DRAFT_2020_12
    # Older drafts are written with an empty fragment.
    known = declared.removesuffix("#") if isinstance(declared, str) else ""
    if known not in DIALECTS:
        raise BadSchema("dialect", "The schema declares a dialect that we do not know.", "/$schema")
    return known


def check_schema(
    schema: Any,
    *,
    dialect: str = DRAFT_2020_12,
    strict_own: bool = True,
    root_object: bool = False,
    most_bytes: int = MAX_SCHEMA_BYTES,
) -> None:
    """Refuse a schema that is invalid, unbounded, remote, or (ours) not fully enforceable."""
    if not isinstance(schema, dict | bool) or (isinstance(schema, bool) and root_object):
        raise BadSchema("root", "A schema is a JSON object.")
    text = _bounded_text(schema, most_bytes)
    if dialect_of(schema) != dialect and isinstance(schema, dict) and "$schema" in schema:
        raise BadSchema("dialect", f"The schema must be in the dialect {dialect}.", "/$schema")
    _check_meta(schema, dialect)
    if root_object and (not isinstance(schema, dict) or schema.get("type") != "object"):
        message = 'The schema of an input has "type": "object" at its root.'
        raise BadSchema("root_type", message, "/type")
    _check_references(schema)
    if strict_own:
        _check_enforceable(schema)
    cost = _priced(schema)
    if strict_own and cost.strays:
        raise BadSchema("reference", "A reference leads to a place that holds no schema.")
    compile_text(text, dialect=dialect, strict=strict_own)


def compile_schema(
    schema: Any, *, dialect: str = DRAFT_2020_12, strict: bool = True, bounded: bool = True
) -> Validator:
    """Return the validator of a schema, compiled once for each distinct schema.

    Strict: patterns are plain and formats are checked. Schemas of ours that are part of the program
    need no bound on what they ask.
    """
    return compile_text(_bounded_text(schema), dialect=dialect, strict=strict, bounded=bounded)


@lru_cache(maxsize=_CACHED_VALIDATORS)
def compile_text(
    text: bytes, *, dialect: str = DRAFT_2020_12, strict: bool = True, bounded: bool = True
) -> Validator:
    """Return the validator of a schema given as its canonical text."""
    cost = _priced(json.loads(text)) if bounded else None
    pattern_bytes = cost.pattern_bytes if cost is not None else MAX_SCHEMA_BYTES
    try:
        engine = _engine(text, dialect, strict, pattern_bytes)
    except BadSchema as refusal:
        if strict or refusal.rule != "pattern":
            raise
        # Looking around and back is possible in schemas of others, over short texts.
        engine = _engine(text, dialect, strict, pattern_bytes, backtracks=True)
        return Validator(engine, cost, backtracks=True)
    return Validator(engine, cost, backtracks=False)


def _priced(schema: Any) -> Cost:
    try:
        return cost_of(schema)
    except TooCostly as refusal:
        raise BadSchema(refusal.rule, refusal.message) from None
    except LeadsNowhere as refusal:
        raise BadSchema("reference", str(refusal)) from None


def _bounded_text(schema: Any, most_bytes: int = MAX_SCHEMA_BYTES) -> bytes:
    try:
        text = canonical_json(schema)
    except NotCanonical as refusal:
        raise BadSchema("not_json", f"The schema is not JSON: {refusal}") from None
    if len(text) > most_bytes:
        raise BadSchema("size", f"The schema is larger than {most_bytes:,} bytes.")
    return text


def _check_meta(schema: Any, dialect: str) -> None:
    for count, (path, _, _) in enumerate(subschemas(schema), 1):
        if len(path) > MAX_SCHEMA_DEPTH:
            raise BadSchema("depth", f"The schema is nested deeper than {MAX_SCHEMA_DEPTH} levels.")
        if count > MAX_SUBSCHEMAS:
            raise BadSchema("count", f"The schema has more than {MAX_SUBSCHEMAS:,} schemas in it.")
    try:
        _META[dialect].check_schema(schema, format_checker=_NO_FORMATS)
    except MetaSchemaError as error:
        where = pointer(list(error.absolute_path))
        rule = str(error.validator)
        raise BadSchema(
            "meta_schema",
            f"At {shown(where, limit=200)} the schema breaks its own meta-schema ({rule}).",
            where,
        ) from None


def _check_references(schema: Any) -> None:
    found = list(subschemas(schema))
    resources = {base for _, _, base in found if base}
    for path, inner, base in found:
        if not isinstance(inner, dict):
            continue
        if path and "$schema" in inner and inner["$schema"] != _declared(schema):
            raise BadSchema("dialect", "Only the root declares a dialect.", pointer(list(path)))
        for keyword in REFERENCES:
            target = inner.get(keyword)
            if isinstance(target, str) and not _is_local(target, base, resources):
                raise BadSchema(
                    "remote_reference",
                    f"{keyword} {shown(target)} leads out of the schema; only local references "
                    "are followed.",
                    pointer([*path, keyword]),
                )


def _declared(schema: Any) -> Any:
    return schema.get("$schema") if isinstance(schema, dict) else None


def _is_local(target: str, base: str, resources: set[str]) -> bool:
    if target.startswith("#"):
        return True
    return urldefrag(urljoin(base, target))[0] in resources


def _check_enforceable(schema: Any) -> None:
    for path, inner, _ in subschemas(schema):
        if not isinstance(inner, dict):
            continue
        for keyword in inner:
            where = pointer([*path, keyword])
            if keyword not in OUR_KEYWORDS and not keyword.startswith("x-"):
                raise BadSchema(
                    "unenforceable",
                    f"The keyword {shown(keyword)} is not enforced by the validator, so it may "
                    "not stand in a schema of ours.",
                    where,
                )
            partner = PARTNERS.get(keyword)
            if partner is not None and partner not in inner:
                raise BadSchema(
                    "unenforceable",
                    f'The keyword "{keyword}" checks nothing without "{partner}".',
                    where,
                )


def _engine(
    text: bytes, dialect: str, strict: bool, pattern_bytes: int, *, backtracks: bool = False
) -> jsonschema_rs.Validator:
    if dialect not in _ENGINES:
        raise BadSchema("dialect", "The dialect is not one that we know.")
    options: jsonschema_rs.PatternOptionsType = (
        jsonschema_rs.FancyRegexOptions(_BACKTRACK_LIMIT, pattern_bytes, _DFA_BYTES)
        if backtracks
        else jsonschema_rs.RegexOptions(pattern_bytes, _DFA_BYTES)
    )
    try:
        return _ENGINES[dialect](
            json.loads(text),
            validate_formats=strict,
            ignore_unknown_formats=not strict,
            pattern_options=options,
            offline=True,
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise _refused_by_engine(error) from None


def _refused_by_engine(error: Exception) -> BadSchema:
    kind = error.kind.name if isinstance(error, jsonschema_rs.ValidationError) else "$ref"
    path = pointer(list(getattr(error, "instance_path", [])))
    if kind in REFERENCES:
        return BadSchema("reference", "A reference in the schema leads nowhere.", path)
    if path.endswith("/format"):
        return BadSchema("unenforceable", "The schema names a format that is not enforced.", path)
    if kind == "format":
        return BadSchema(
            "pattern",
            "A pattern of the schema is not a plain regular expression, or too large.",
            path,
        )
    return BadSchema("meta_schema", f"The schema does not compile ({shown(kind)}).", path)

"""What is wrong with the shape of something that an author declared, field by field?"""

from typing import Any

from apps.domain.problems import MAX_PROBLEMS, Problems, dotted
from apps.domain.schemas import compile_schema


def check_shape(raw: Any, schema: dict[str, Any], where: str, problems: Problems) -> None:
    """Note each place below `where` that breaks a schema of ours, with its rule."""
    for error in compile_schema(schema, bounded=False).errors(raw, limit=MAX_PROBLEMS):
        place = dotted(where, error.path)
        if error.rule == "additionalProperties":
            for name in error.names:
                problems.add(below(place, name), "unknown_field", "There is no such field.")
        elif error.rule == "required":
            for name in error.names:
                problems.add(below(place, name), "required", "The field is missing.")
        else:
            problems.add(place, error.rule, f"It {error.text}")


def below(where: str, name: str) -> str:
    """Return the place of a field of an object."""
    return f"{where}.{name}" if where else name


def closed(required: str = "", **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has these properties and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }

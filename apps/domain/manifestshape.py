"""Which shape does a manifest have, before any of it is judged?"""

from typing import Any, Final

from apps.domain.entries import NAME_SCHEMA
from apps.domain.handing import FIELD, FIELD_SCHEMA
from apps.domain.kindgi import DEFINITION_SCHEMA
from apps.domain.runtimes import RUNTIME_FIELD, RUNTIME_SCHEMA

MAX_TOOLS: Final = 32
COLLABORATION_CLASSES: Final = (
    "actor_bound_read",
    "actor_private_read",
    "actor_bound_write",
    "unknown",
)

_SEMVER: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    r"(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)
MANIFEST_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": NAME_SCHEMA,
        "version": {"type": "string", "pattern": _SEMVER, "maxLength": 64},
        "ref": {"type": "string", "maxLength": 130},
        "format": {"type": "string"},
        "posture": True,
        "skills": True,
        "description": {"type": "string", "maxLength": 4000},
        "tools": {
            "type": "array",
            "maxItems": MAX_TOOLS,
            "items": {
                "type": "object",
                "properties": {
                    "definition": DEFINITION_SCHEMA,
                    "collaboration_class": {"enum": list(COLLABORATION_CLASSES)},
                    # A function, a program or a file tool; each is read by its own rules.
                    "entry": True,
                    FIELD: FIELD_SCHEMA,
                    RUNTIME_FIELD: RUNTIME_SCHEMA,
                },
                # A tool that is silent about rooms stays out of them.
                "required": ["definition"],
                "additionalProperties": False,
            },
        },
        # What commands and file tools look at, and the programs beside them.
        "artifacts": True,
        "sessions": True,
        "human_tools": True,
        "metadata": {"type": "object"},
    },
    "required": ["name", "version", "ref", "format", "tools"],
    "additionalProperties": False,
}

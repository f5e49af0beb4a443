"""How does the OpenAPI document describe what every operation shares?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from apps.core.api.idempotency import HEADER, MAX_KEY
from apps.core.api.problems import CONTENT_TYPE

IDEMPOTENCY = OpenApiParameter(
    name=HEADER,
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    description=(
        f"1 to {MAX_KEY} printable characters that name this request. A repeat within 24 hours "
        "is answered as the first was and changes nothing."
    ),
)

_PROBLEM = {
    "type": "object",
    "description": "What went wrong. `code` is stable; sentences may change.",
    "required": ["type", "title", "status", "code", "detail", "correlation_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "rule", "detail"],
                "properties": {
                    "field": {"type": "string"},
                    "rule": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        },
        "retry_after": {"type": "integer"},
        "correlation_id": {"type": "string"},
    },
}


def describe_problems(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Give every operation the problem as its answer for whatever is not its success."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    answer = {
        "description": "A problem",
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"].setdefault("default", answer)
    return result

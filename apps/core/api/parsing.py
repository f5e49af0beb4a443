"""Which request bodies are read at all? JSON that has one meaning, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from apps.core.errors import Refusal
from apps.domain.canonical import BadJson, strict_loads

MAX_BODY_BYTES = 256 * 1024


class MalformedBody(Refusal):
    """The body is not JSON, or JSON that two readers could understand in two ways."""

    code = "malformed_json"
    status = 400


class BodyTooLarge(Refusal):
    """The body is larger than this address takes."""

    code = "too_large"
    status = 413


class StrictJSONParser(BaseParser):
    """Read JSON strictly, up to the `max_body_bytes` of the view; NUL where it `takes_nul`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the one value of the body, or refuse."""
        context = parser_context or {}
        view = context.get("view")
        limit: int = getattr(view, "max_body_bytes", MAX_BODY_BYTES)
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge(f"The body is larger than {limit:,} bytes.")
        try:
            return strict_loads(raw, max_bytes=limit, nul=getattr(view, "takes_nul", True))
        except BadJson as bad:
            raise MalformedBody(bad.message, extra={"rule": bad.rule}) from None

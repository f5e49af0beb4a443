"""How is a long list read? In pages that start behind a signed mark, in one stable order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.db.models import Field, Model, Q
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from apps.core.errors import Invalid

MAX_PAGE = 100
CURSOR = "cursor"
PAGE_SIZE = "page_size"


@dataclass(frozen=True, slots=True)
class Mark:
    """The row that a page stands behind (or, backwards, before)."""

    value: str
    pk: str
    backwards: bool


class CursorPage(BasePagination):
    """A page of 1 to 100 rows, ordered by one field and then by the primary key.

    The mark names both, so rows of the same moment are neither skipped nor met twice, whatever
    was inserted meanwhile. It is signed for its list: nobody can make one that compares a column
    with something that is not its type.
    """

    page_size = 50

    def __init__(self, order: str = "-created_at") -> None:
        self.order = order

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Return the rows of the page that the request asks for."""
        self._field: Field[Any, Any] = queryset.model._meta.get_field(self.order.lstrip("-"))
        self._salt = f"kaizen.cursor:{request.path}:{self.order}"
        self._address = request.build_absolute_uri()
        size = _wanted_size(request, self.page_size)
        mark = self._mark(request)
        backwards = mark is not None and mark.backwards
        falling = self.order.startswith("-") != backwards
        sign = "-" if falling else ""
        rows = queryset.order_by(f"{sign}{self._field.name}", f"{sign}pk")
        if mark is not None:
            rows = rows.filter(self._beyond(mark, falling))
        found = list(rows[: size + 1])
        more, page = len(found) > size, found[:size]
        if backwards:
            page.reverse()
        self._next = page[-1] if page and (more or backwards) else None
        self._previous = page[0] if page and (more if backwards else mark is not None) else None
        return page

    def get_paginated_response(self, data: Any) -> Response:
        """Wrap the rows with the addresses of the pages around them."""
        return Response(
            {
                "next": self._link(self._next, backwards=False),
                "previous": self._link(self._previous, backwards=True),
                "results": data,
            }
        )

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Describe a page for the OpenAPI document."""
        link = {"type": "string", "nullable": True, "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": link, "results": schema},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Describe the query parameters for the OpenAPI document."""
        return [
            {
                "name": CURSOR,
                "required": False,
                "in": "query",
                "description": "Where the page starts, as `next` or `previous` gave it.",
                "schema": {"type": "string"},
            },
            {
                "name": PAGE_SIZE,
                "required": False,
                "in": "query",
                "description": "How many results a page holds.",
                "schema": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_PAGE,
                    "default": self.page_size,
                },
            },
        ]

    def _beyond(self, mark: Mark, falling: bool) -> Q:
        way = "lt" if falling else "gt"
        value = self._field.to_python(mark.value)
        name = self._field.name
        return Q(**{f"{name}__{way}": value}) | Q(**{name: value, f"pk__{way}": mark.pk})

    def _mark(self, request: Request) -> Mark | None:
        given = request.query_params.get(CURSOR)
        if given is None:
            return None
        try:
            value, pk, backwards = signing.loads(given, salt=self._salt)
        except signing.BadSignature:
            raise Invalid(
                "This cursor does not belong to this list. Start without one.", field=CURSOR
            ) from None
        return Mark(value=value, pk=pk, backwards=bool(backwards))

    def _link(self, row: Model | None, *, backwards: bool) -> str | None:
        if row is None:
            return None
        value = self._field.value_to_string(row)
        mark = signing.dumps([value, str(row.pk), int(backwards)], salt=self._salt)
        link: str = replace_query_param(self._address, CURSOR, mark)
        return link


def _wanted_size(request: Request, usual: int) -> int:
    wanted = request.query_params.get(PAGE_SIZE)
    if wanted is None:
        return usual
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= 3 and 1 <= int(wanted) <= MAX_PAGE:
        return int(wanted)
    raise Invalid(f"{PAGE_SIZE} is a whole number from 1 to {MAX_PAGE}.", field=PAGE_SIZE)

"""What do all API views share? Strict bodies and queries, pages, and answers given once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from django.db.models import QuerySet
from rest_framework import status
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from apps.core.api.idempotency import create_once
from apps.core.api.pagination import CURSOR, PAGE_SIZE, CursorPage
from apps.core.api.parsing import MAX_BODY_BYTES
from apps.core.api.serializers import NothingSerializer, StrictSerializer


class ApiView(APIView):
    """A view that parses, calls one verb or selector, and renders."""

    max_body_bytes = MAX_BODY_BYTES
    takes_nul = True
    pagination_class = CursorPage

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Take a body that came in pieces, without a length, for the body that it is."""
        meta = request._request.META
        if "CONTENT_LENGTH" not in meta:
            # The framework reads as many bytes as are announced; the server has them all by now.
            meta["CONTENT_LENGTH"] = str(len(request._request.body))
        super().initial(request, *args, **kwargs)

    @property
    def owner(self) -> str:
        """Name who is asking, as `kind:id`, for whatever is remembered about their requests."""
        return str(cast(Any, self.request.user).key)

    def body(self, shape: type[StrictSerializer] = NothingSerializer) -> dict[str, Any]:
        """Return the checked fields of the request's body."""
        return _checked(shape, self.request.data)

    def query(self, shape: type[StrictSerializer] = NothingSerializer) -> dict[str, Any]:
        """Return the checked query parameters, leaving out those of pages."""
        given: dict[str, Any] = {}
        for name, values in self.request.query_params.lists():
            if name in (CURSOR, PAGE_SIZE):
                continue
            if len(values) > 1:
                again = ErrorDetail("This may be given once.", code="repeated")
                raise ValidationError({name[:60]: [again]})
            given[name] = values[0]
        return _checked(shape, given)

    def page(
        self, rows: QuerySet[Any], shape: type[Serializer], *, order: str = "-created_at"
    ) -> Response:
        """Answer one page of rows."""
        paginator = CursorPage(order)
        found = paginator.paginate_queryset(rows, self.request, self)
        return paginator.get_paginated_response(shape(found, many=True).data)

    def create(
        self,
        make: Callable[[], Any],
        shape: type[Serializer],
        *,
        code: int = status.HTTP_201_CREATED,
        shown_once: Collection[str] = (),
        context: Mapping[str, Any] | None = None,
    ) -> Response:
        """Make something once per idempotency key, in one transaction, and answer it."""

        def answer() -> Response:
            return Response(shape(make(), context=dict(context or {})).data, status=code)

        return create_once(self.request, owner=self.owner, make=answer, shown_once=shown_once)


def _checked(shape: type[StrictSerializer], data: Any) -> dict[str, Any]:
    serializer = shape(data=data)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)

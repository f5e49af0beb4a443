"""How does another system answer a call that waits for it? With the link that it was handed."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.boundary.pausing import answer_pause
from apps.core.api.views import ApiView


class PauseView(ApiView):
    """The end of one wait: whoever holds the token may answer, once, and nothing else."""

    authentication_classes = []
    permission_classes = []
    # An answer that comes early is put aside as it is, in a column.
    takes_nul = False

    @extend_schema(
        operation_id="pauses_answer", request={"application/json": {}}, responses={204: None},
        auth=[],
    )  # fmt: skip
    def post(self, request: Request, token: str) -> Response:
        """Answer a waiting call: one JSON value that fits what its tool says it hands back."""
        answer_pause(token=token, answer=request.data)
        return Response(status=status.HTTP_204_NO_CONTENT)

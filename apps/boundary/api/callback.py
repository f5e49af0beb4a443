"""How does another runtime use tools? With its run's token, through the same boundary."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from apps.accounts.models import User
from apps.boundary.api.reads import call_of_run
from apps.boundary.api.serializers import (
    CallbackCallSerializer,
    CallbackRunSerializer,
    LastWordSerializer,
    ProposedCallSerializer,
    WaitQuerySerializer,
)
from apps.boundary.crossing import Settled
from apps.boundary.external import BadToken, call_tool, finish_external_run, run_of_token
from apps.core.api.views import ApiView
from apps.core.throttles import Limit, spend
from apps.domain.canonical import canonical_json
from apps.runs.models import Run

SCHEME = "Run"
MAX_CALL_BYTES = 1_310_720
"""Room for the largest arguments that any tool takes, and the words around them."""


def presented_token(header: bytes) -> str | None:
    """Return the run token of an `Authorization: Run …` header, if it carries one."""
    parts = header.split()
    if len(parts) != 2 or parts[0].lower() != SCHEME.lower().encode():
        return None
    return parts[1].decode("ascii", "replace")


class RunTokenAuthentication(BaseAuthentication):
    """Find the run by its token; the member for whom it works is who acts."""

    def authenticate(self, request: Request) -> tuple[User, Run] | None:
        """Return member and run, or refuse."""
        token = presented_token(get_authorization_header(request))
        if token is None:
            raise BadToken(f"Send the run's token as `Authorization: {SCHEME} …`.")
        run = run_of_token(token)
        return run.member, run

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme for a challenge."""
        return SCHEME


class RunTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names the token of a run."""

    target_class = "apps.boundary.api.callback.RunTokenAuthentication"
    name = "runToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Describe the header."""
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": f"`{SCHEME}` and the token of one run.",
        }


class RunThrottle(BaseThrottle):
    """Count the requests of each run by itself."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count this request, or refuse it; a count that cannot be kept refuses too."""
        limit = Limit("callback", settings.KAIZEN_CALLBACK_PER_MINUTE, 60)
        spend(limit, str(cast(Run, request.auth).pk))
        return True


class CallbackView(ApiView):
    """A view for whoever holds the token of a run."""

    authentication_classes = [RunTokenAuthentication]
    throttle_classes = [RunThrottle]

    @property
    def run(self) -> Run:
        """The run that the token stands for."""
        return cast(Run, self.request.auth)


class CallbackRunView(CallbackView):
    """The run itself."""

    @extend_schema(operation_id="callback_run", responses=CallbackRunSerializer)
    def get(self, request: Request) -> Response:
        """Show the run with the frozen catalog of the tools that it is offered."""
        self.query()
        return Response(CallbackRunSerializer(self.run).data)


class CallbackCallsView(CallbackView):
    """The calls that the runtime proposes."""

    max_body_bytes = MAX_CALL_BYTES

    @extend_schema(
        operation_id="callback_call",
        request=ProposedCallSerializer,
        responses={200: CallbackCallSerializer, 202: CallbackCallSerializer},
    )
    def post(self, request: Request) -> Response:
        """Propose a call. 200: it has settled. 202: it waits, ask again by its id."""
        fields = self.body(ProposedCallSerializer)
        crossed = call_tool(
            run=self.run,
            name=fields["name"],
            arguments_text=canonical_json(fields["arguments"]).decode(),
            proposal_id=fields["proposal_id"],
        )
        settled = isinstance(crossed, Settled)
        code = status.HTTP_200_OK if settled else status.HTTP_202_ACCEPTED
        return Response(CallbackCallSerializer(crossed.call).data, status=code)


class CallbackCallView(CallbackView):
    """One call of the run."""

    @extend_schema(
        operation_id="callback_call_read",
        parameters=[WaitQuerySerializer],
        responses=CallbackCallSerializer,
    )
    def get(self, request: Request, call_id: uuid.UUID) -> Response:
        """Show where a call stands, after waiting for its outcome if asked to."""
        self.query(WaitQuerySerializer)
        call = call_of_run(call_id=call_id, run_id=self.run.pk)
        return Response(CallbackCallSerializer(call).data)


class CallbackFinishView(CallbackView):
    """The end of the run."""

    @extend_schema(
        operation_id="callback_finish", request=LastWordSerializer, responses={204: None}
    )
    def post(self, request: Request) -> Response:
        """End the run, with a last word for the room; the token dies with it."""
        finish_external_run(run=self.run, text=self.body(LastWordSerializer)["text"])
        return Response(status=status.HTTP_204_NO_CONTENT)

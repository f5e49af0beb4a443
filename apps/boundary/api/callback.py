"""How does another runtime propose calls? Read the catalog, propose, wait, finish."""

from __future__ import annotations

import json
import uuid
from typing import Any, cast

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    CharField,
    ChoiceField,
    DictField,
    FloatField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
    UUIDField,
)
from rest_framework.throttling import BaseThrottle

from apps.boundary.api.run_token import RunTokenAuthentication, SpeaksForRun
from apps.boundary.crossing import Settled
from apps.boundary.external import call_tool, count_call, finish_external_run
from apps.core.api.serializers import NothingSerializer, StrictSerializer, TextField
from apps.core.api.views import ApiView
from apps.core.blobs import get_blob
from apps.core.errors import NotFound
from apps.domain.tooling import CallState
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.runs.selectors import call_of_run
from apps.runs.waits import WaitsFor, waits_for

LONGEST_WAIT = 25.0
NO_CALL = "This run has no such call."


class CatalogShape(Serializer):
    """The frozen catalog of a run."""

    run = UUIDField()
    state = ChoiceField(choices=Run.State.choices)
    catalog_digest = CharField()
    tools = DictField(child=JSONField())


class ProposalShape(StrictSerializer):
    """One proposed call. The same proposal id always stands for the same call."""

    name = TextField(max_length=64)
    arguments = JSONField()
    proposal_id = TextField(max_length=200)


class ImageShape(Serializer):
    """An image that is kept with a call; its bytes are read by its digest."""

    digest = CharField()
    mime_type = CharField()
    size = IntegerField(help_text="Bytes.")


class CallShape(Serializer):
    """Where a call stands, and what it handed back once it has settled."""

    call = UUIDField()
    tool = CharField()
    state = ChoiceField(choices=[state.value for state in CallState])
    outcome = CharField(allow_blank=True)
    reason = CharField(allow_blank=True)
    waits_for_approval = JSONField()
    waits_for = ChoiceField(
        choices=[waits.value for waits in WaitsFor],
        allow_blank=True,
        help_text="Who has to do something before the call goes on: `person`, `worker`,"
        " `system` (another system's answer), `agent`, or nobody.",
    )
    projection = JSONField(allow_null=True)
    images = ListField(
        child=ImageShape(), help_text="Images of the result, where the agent sees images."
    )


class WaitShape(StrictSerializer):
    """How long to wait for an outcome."""

    wait = FloatField(min_value=0, max_value=LONGEST_WAIT, default=0, help_text="Seconds.")


class LastWordShape(StrictSerializer):
    """The runtime's last word."""

    text = TextField(max_length=20_000, allow_blank=True)
    outcome = ChoiceField(
        choices=[Run.Outcome.COMPLETED.value, Run.Outcome.FAILED.value],
        default=Run.Outcome.COMPLETED.value,
    )


class RunThrottle(BaseThrottle):
    """Count the calls of one run; a count that cannot be kept refuses."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count this request."""
        count_call(cast(Run, request.auth))
        return True


class RunView(ApiView):
    """A view for whoever holds a run's token."""

    authentication_classes = [RunTokenAuthentication]
    permission_classes = [SpeaksForRun]
    throttle_classes = [RunThrottle]

    @property
    def run(self) -> Run:
        """The run that the token stands for."""
        return cast(Run, self.request.auth)


class CatalogView(RunView):
    """What the run may propose."""

    @extend_schema(responses=CatalogShape, operation_id="callback_catalog")
    def get(self, request: Request) -> Response:
        """Return the run's frozen catalog."""
        self.query()
        run = self.run
        return Response(
            {
                "run": str(run.pk),
                "state": run.state,
                "catalog_digest": run.catalog_digest,
                "tools": (run.catalog or {}).get("tools", {}),
            }
        )


class CallsView(RunView):
    """Where calls are proposed."""

    # A body's JSON text can be several times its characters.
    max_body_bytes = 2 * 1024 * 1024

    @extend_schema(
        request=ProposalShape,
        responses={200: CallShape, 202: CallShape},
        operation_id="callback_propose",
    )
    def post(self, request: Request) -> Response:
        """Propose one call: 200 once it has settled, 202 while it waits."""
        fields = self.body(ProposalShape)
        crossed = call_tool(
            run=self.run,
            name=fields["name"],
            arguments_text=json.dumps(fields["arguments"], ensure_ascii=False),
            proposal_id=fields["proposal_id"],
        )
        done = isinstance(crossed, Settled)
        return Response(
            call_view(crossed.call),
            status=status.HTTP_200_OK if done else status.HTTP_202_ACCEPTED,
        )


class CallView(RunView):
    """Where one call stands."""

    @extend_schema(
        operation_id="callback_call",
        parameters=[WaitShape],
        responses={200: CallShape, 202: CallShape},
    )
    def get(self, request: Request, call_id: uuid.UUID) -> Response:
        """Return a call, after at most `wait` seconds if it has not settled: 200, else 202."""
        self.query(WaitShape)
        call = call_of_run(run_id=self.run.pk, call_id=call_id)
        if call is None:
            raise NotFound(NO_CALL)
        done = call.state == CallState.SETTLED.value
        return Response(
            call_view(call), status=status.HTTP_200_OK if done else status.HTTP_202_ACCEPTED
        )


class CallImageView(RunView):
    """An image of a result."""

    @extend_schema(
        operation_id="callback_call_image", responses={(200, "image/*"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request, call_id: uuid.UUID, digest: str) -> HttpResponse:
        """Return the bytes of one image that is kept with a call of the run."""
        self.query()
        call = Call.objects.filter(pk=call_id, run=self.run).only("images").first()
        kept = [one for one in (call.images if call is not None else []) if one["digest"] == digest]
        if not kept:
            raise NotFound("This run has no such image.")
        answer = HttpResponse(get_blob(digest), content_type=kept[0]["mime_type"])
        # It is data of somebody's, and never a page of ours.
        answer.headers["Content-Disposition"] = "attachment"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Cache-Control"] = "private, no-store"
        return answer


class FinishView(RunView):
    """Where a run ends."""

    @extend_schema(request=LastWordShape, responses={200: NothingSerializer})
    def post(self, request: Request) -> Response:
        """End the run with its last word; its token dies with it."""
        said = self.body(LastWordShape)
        failed = said["outcome"] == Run.Outcome.FAILED.value
        finish_external_run(run=self.run, text=said["text"], failed=failed)
        return Response({})


def call_view(call: Call) -> dict[str, Any]:
    """Return what a runtime is told of one of its calls."""
    waiting = call.state == CallState.WAITING.value
    return {
        "call": str(call.pk),
        "tool": call.tool,
        "state": call.state,
        "outcome": call.outcome,
        "reason": call.reason,
        "waits_for_approval": waiting and call.needs_receipt,
        "waits_for": waits_for(call) or "",
        "projection": projection_of(call),
        "images": call.images,
    }

"""How are automations kept, and started, from outside?"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import IO, Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.automations.api.authentication import (
    StartsAutomation,
    StartThrottle,
    StartTokenAuthentication,
)
from apps.automations.api.serializers import (
    AutomationQuerySerializer,
    AutomationSerializer,
    ChangedAutomationSerializer,
    GrantedSerializer,
    NewAutomationSerializer,
    StartedSerializer,
)
from apps.automations.errors import NotStarted
from apps.automations.models import Automation
from apps.automations.selectors import automations_of, own_automation
from apps.automations.services import (
    change_automation,
    create_automation,
    delete_automation,
    revoke_automation,
    rotate_start_token,
)
from apps.automations.starting import note_refusal, start_by_webhook
from apps.core.api.parsing import BodyTooLarge, MalformedBody, StrictJSONParser
from apps.core.api.schema import IDEMPOTENCY
from apps.core.api.views import ApiView

MAX_OUTSIDE_BYTES = 16 * 1024


class AutomationsView(MemberView):
    """The member's automations."""

    @extend_schema(
        operation_id="automations_list",
        parameters=[AutomationQuerySerializer],
        responses=AutomationSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List the member's automations, newest first."""
        query = self.query(AutomationQuerySerializer)
        rows = automations_of(
            self.member,
            trigger=query.get("trigger"),
            room_id=query.get("room"),
            state=query.get("state"),
        )
        return self.page(rows, AutomationSerializer)

    @extend_schema(
        operation_id="automations_create",
        parameters=[IDEMPOTENCY],
        request=NewAutomationSerializer,
        responses={201: GrantedSerializer},
    )
    def post(self, request: Request) -> Response:
        """Let an agent be asked by a schedule or a webhook; a webhook's token is shown once."""
        fields = self.body(NewAutomationSerializer)
        fields["agent_slug"], fields["room_id"] = fields.pop("agent"), fields.pop("room")
        return self.create(
            lambda: create_automation(member=self.member, **fields),
            GrantedSerializer,
            shown_once=("token",),
        )


class AutomationView(MemberView):
    """One automation of the member."""

    @extend_schema(operation_id="automations_read", responses=AutomationSerializer)
    def get(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Show an automation, when it is due, and how its last start went."""
        self.query()
        found = own_automation(automation_id=automation_id, member=self.member)
        return Response(AutomationSerializer(found).data)

    @extend_schema(
        operation_id="automations_change",
        request=ChangedAutomationSerializer,
        responses=AutomationSerializer,
    )
    def patch(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Change some fields; where that changes the grant, runs from before go no further."""
        fields = self.body(ChangedAutomationSerializer)
        revision: int | None = fields.pop("revision", None)
        changed = change_automation(
            automation_id=automation_id, member=self.member, changes=fields, revision=revision
        )
        return Response(AutomationSerializer(changed).data)

    @extend_schema(operation_id="automations_delete", responses={204: None})
    def delete(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Delete an automation; its runs stay, and go no further."""
        delete_automation(automation_id=automation_id, member=self.member)
        return Response(status=status.HTTP_204_NO_CONTENT)


class AutomationRevocationView(MemberView):
    """The end of an automation, before its time."""

    @extend_schema(operation_id="automations_revoke", request=None, responses=AutomationSerializer)
    def post(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Revoke an automation for good; it stays to be read."""
        self.body()
        own_automation(automation_id=automation_id, member=self.member)
        revoked = revoke_automation(automation_id=automation_id, actor=self.member)
        return Response(AutomationSerializer(revoked).data)


class AutomationTokenView(MemberView):
    """The token of a webhook."""

    @extend_schema(
        operation_id="automations_rotate_token",
        parameters=[IDEMPOTENCY],
        request=None,
        responses={201: GrantedSerializer},
    )
    def post(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Give a webhook a new token, shown once; the one before starts nothing any more."""
        self.body()
        return self.create(
            lambda: rotate_start_token(automation_id=automation_id, member=self.member),
            GrantedSerializer,
            shown_once=("token",),
        )


class PlainTextParser(BaseParser):
    """Read text in UTF-8, up to the `max_body_bytes` of the view."""

    media_type = "text/plain"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the text, or refuse."""
        limit: int = getattr((parser_context or {}).get("view"), "max_body_bytes", 0)
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge(f"The body is larger than {limit:,} bytes.")
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedBody("The body is not text in UTF-8.") from None
        if "\x00" in text:
            raise MalformedBody("The body holds a NUL, which no text does.")
        return text


class AutomationStartView(ApiView):
    """Where a webhook comes in."""

    authentication_classes = [StartTokenAuthentication]
    permission_classes = [StartsAutomation]
    throttle_classes = [StartThrottle]
    parser_classes = [StrictJSONParser, PlainTextParser]
    max_body_bytes = MAX_OUTSIDE_BYTES

    @property
    def automation(self) -> Automation:
        """The automation whose token the request carries."""
        found: Any = self.request.auth
        if not isinstance(found, Automation):
            raise LookupError("Only an automation's token opens this door.")
        return found

    @property
    def owner(self) -> str:
        """Name the automation: a key of one says nothing about another's."""
        return self.automation.key

    @extend_schema(
        operation_id="automations_start",
        parameters=[IDEMPOTENCY],
        request={"application/json": OpenApiTypes.ANY, "text/plain": OpenApiTypes.STR},
        responses={202: StartedSerializer},
    )
    def post(self, request: Request, automation_id: uuid.UUID) -> Response:
        """Start the automation; what is sent reaches the agent as data, never as instructions."""
        outside = _as_text(request)
        try:
            return self.create(
                lambda: start_by_webhook(automation=self.automation, outside=outside),
                StartedSerializer,
                code=status.HTTP_202_ACCEPTED,
            )
        except NotStarted as refusal:
            # What the refused request did is undone; that it was refused is written all the same.
            note_refusal(automation=self.automation, refusal=refusal)
            raise


def _as_text(request: Request) -> str:
    """Return what was sent as the agent reads it: JSON in one form, text as it is."""
    data: Any = request.data
    if isinstance(data, str) and request.content_type.startswith("text/"):
        return data
    if request.stream is None:
        return ""
    return _written(data)


def _written(data: Any) -> str:
    """Write a JSON value down: spread over lines, or close together where that is too long."""
    spread = json.dumps(data, ensure_ascii=False, indent=1)
    if len(spread.encode()) <= MAX_OUTSIDE_BYTES:
        return spread
    close = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # What is deeply nested grows with its lines, and a number such as 1e15 with its digits.
    if len(close.encode()) > MAX_OUTSIDE_BYTES:
        raise BodyTooLarge(f"The body is larger than {MAX_OUTSIDE_BYTES:,} bytes, written out.")
    return close

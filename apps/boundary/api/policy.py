"""How do administrators' programs read and change the tool policy and pinned arguments?

Whoever changes something names the revision that they saw, as `If-Match`: a change that somebody
else made in between is never overwritten unseen.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.api.views import MemberView
from apps.accounts.permissions import Permission, require
from apps.approvals.wishes import rules_in_force
from apps.boundary.policy_preview import PolicyPreview, policy_preview
from apps.boundary.policy_sheet import tree_of
from apps.core.api.serializers import StrictSerializer, TextField
from apps.core.errors import Conflict, NotFound, Refusal
from apps.domain.policy import NodeState, Path, Why
from apps.domain.tooling import Effect
from apps.grants import services
from apps.grants.errors import BadPolicy, StalePolicy
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState
from apps.grants.services.policy import MAX_CHANGES, check_path
from apps.tools.endpoints import all_endpoints, specification_at

ROOT_WORD = "root"
MOST_TOOLS = 500

_IF_MATCH = OpenApiParameter(
    "If-Match",
    location=OpenApiParameter.HEADER,
    required=True,
    description='The revision that was seen, such as `"7"`.',
)


class NoRevision(Refusal):
    """A change names the revision that its writer saw."""

    code: ClassVar[str] = "revision_required"
    status: ClassVar[int] = 428


class OtherRevision(Conflict):
    """The policy is at another revision than the one that was named."""

    code = "stale_policy"
    status = 412


class NodeSerializer(serializers.Serializer):
    """What was said at one node."""

    node = serializers.SerializerMethodField(help_text="Words from the root down; root itself.")
    state = serializers.ChoiceField(choices=PolicyNode.State.choices)
    note = serializers.CharField(allow_blank=True)
    changed_by = PersonSerializer()
    changed_at = serializers.DateTimeField(source="updated_at")

    def get_node(self, row: PolicyNode) -> str:
        """Return the node as it is written in addresses and changes."""
        return "/".join(row.path) or ROOT_WORD


class PolicySerializer(serializers.Serializer):
    """The whole policy: a node that is not listed says nothing."""

    revision = serializers.IntegerField()
    nodes = NodeSerializer(many=True)


class ChangeSerializer(StrictSerializer):
    """What one node is to say."""

    node = TextField(max_length=240)
    state = serializers.ChoiceField(choices=[state.value for state in NodeState])


class ChangesSerializer(StrictSerializer):
    """Changes that hold together, or not at all."""

    changes = serializers.ListField(
        child=ChangeSerializer(), allow_empty=False, max_length=MAX_CHANGES
    )
    note = TextField(max_length=200, required=False, default="", allow_blank=True)


class EffectsSerializer(serializers.Serializer):
    """Whom changes would concern."""

    affected = serializers.IntegerField()
    lost = serializers.ListField(child=serializers.CharField())
    gained = serializers.ListField(child=serializers.CharField())
    agents = serializers.IntegerField()
    runs = serializers.IntegerField()


class ToolQuerySerializer(StrictSerializer):
    """Which part of the tree."""

    under = TextField(max_length=240, required=False, default=ROOT_WORD)


class PolicyToolSerializer(serializers.Serializer):
    """What holds for one tool in the end, and which node decided."""

    node = serializers.CharField()
    title = serializers.CharField()
    effect = serializers.ChoiceField(choices=[effect.value for effect in Effect])
    asks = serializers.BooleanField(help_text="Where its member chose nothing.")
    allowed = serializers.BooleanField()
    why = serializers.ChoiceField(choices=[why.value for why in Why])
    decided_by = serializers.CharField()


class PolicyToolsSerializer(serializers.Serializer):
    """Tools in the order of the tree, at most five hundred."""

    revision = serializers.IntegerField()
    tools = PolicyToolSerializer(many=True)
    more = serializers.BooleanField()


class PinsSerializer(serializers.Serializer):
    """The arguments of one tool that the deployment sets itself."""

    node = serializers.SerializerMethodField()
    values = serializers.JSONField()
    note = serializers.CharField(allow_blank=True)
    changed_by = PersonSerializer()
    changed_at = serializers.DateTimeField(source="updated_at")

    def get_node(self, row: PinnedArguments) -> str:
        """Return where the tool hangs."""
        return "/".join(row.path)


class PinnedSerializer(serializers.Serializer):
    """Everything that is pinned."""

    revision = serializers.IntegerField()
    pins = PinsSerializer(many=True)


class NewPinsSerializer(StrictSerializer):
    """Values in place of whatever was pinned of the tool before."""

    values = serializers.DictField(allow_empty=False)
    note = TextField(max_length=200, required=False, default="", allow_blank=True)


class KeeperView(MemberView):
    """A view for those who keep the policy; whoever else asks is refused, and that is recorded."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let nobody else in, whatever they ask."""
        super().initial(request, *args, **kwargs)
        require(self.member, Permission.POLICY_MANAGE)

    def seen(self) -> int:
        """Return the revision that the request names."""
        named = self.request.headers.get("If-Match", "").strip()
        if not named:
            raise NoRevision("Name the revision that you saw, as `If-Match`.", field="If-Match")
        number = named.removeprefix('"').removesuffix('"')
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            raise OtherRevision("No revision is called that.", field="If-Match")
        return int(number)

    def answer(self, body: Any, revision: int) -> Response:
        """Answer with the revision that holds."""
        return Response(body, headers={"ETag": f'"{revision}"'})


class PolicyView(KeeperView):
    """The tool policy."""

    @extend_schema(operation_id="policy_read", responses=PolicySerializer)
    def get(self, request: Request) -> Response:
        """Return everything that was said, with the revision as `ETag`."""
        self.query()
        return self._shown()

    @extend_schema(
        operation_id="policy_change",
        request=ChangesSerializer,
        responses=PolicySerializer,
        parameters=[_IF_MATCH],
    )
    def patch(self, request: Request) -> Response:
        """Say something at nodes, or take it back with `unset`; all of it, or nothing."""
        fields = self.body(ChangesSerializer)
        try:
            services.change_policy(
                actor=self.member,
                revision=self.seen(),
                changes=_changes(fields["changes"]),
                note=fields["note"],
            )
        except StalePolicy as stale:
            raise OtherRevision(stale.message, field="If-Match") from stale
        return self._shown()

    def _shown(self) -> Response:
        # The number first: what is read after it is at least as new.
        revision = _revision()
        nodes = PolicyNode.objects.select_related("changed_by")
        return self.answer(PolicySerializer({"revision": revision, "nodes": nodes}).data, revision)


class PolicyEffectsView(KeeperView):
    """What a change would do before it is one."""

    @extend_schema(
        operation_id="policy_preview", request=ChangesSerializer, responses=EffectsSerializer
    )
    def post(self, request: Request) -> Response:
        """Name the tools that could no longer be called, or now could, and count whom it concerns.

        Nothing is changed.
        """
        changes = _changes(self.body(ChangesSerializer)["changes"])
        revision = _revision()
        services.check_changes(actor=self.member, revision=revision, changes=changes)
        found: PolicyPreview = policy_preview(changes)
        return self.answer(
            EffectsSerializer(
                {
                    "affected": found.affected,
                    "lost": [touched.name for touched in found.lost],
                    "gained": [touched.name for touched in found.gained],
                    "agents": found.agents,
                    "runs": found.runs,
                }
            ).data,
            revision,
        )


class PolicyToolsView(KeeperView):
    """What the policy comes to, tool by tool."""

    @extend_schema(
        operation_id="policy_tools",
        parameters=[ToolQuerySerializer],
        responses=PolicyToolsSerializer,
    )
    def get(self, request: Request) -> Response:
        """List tools below a node: callable or not, and which node decided."""
        under = _node(self.query(ToolQuerySerializer)["under"])
        revision = _revision()
        tree = tree_of(PolicyNode.objects.all())
        found = [
            endpoint
            for endpoint in all_endpoints(rules_in_force())
            if endpoint.path[: len(under)] == under
        ]
        tools = []
        for endpoint in found[:MOST_TOOLS]:
            standing = tree.standing(endpoint.path)
            tools.append(
                {
                    "node": "/".join(endpoint.path),
                    "title": endpoint.title,
                    "effect": endpoint.effect.value,
                    "asks": endpoint.asks,
                    "allowed": standing.allowed and not endpoint.switched_off,
                    "why": standing.why.value,
                    "decided_by": "/".join(standing.decided_by) or ROOT_WORD,
                }
            )
        body = {"revision": revision, "tools": tools, "more": len(found) > MOST_TOOLS}
        return self.answer(PolicyToolsSerializer(body).data, revision)


class PinnedView(KeeperView):
    """All pinned arguments."""

    @extend_schema(operation_id="policy_pins_list", responses=PinnedSerializer)
    def get(self, request: Request) -> Response:
        """List which tools have arguments that the deployment sets, and to what."""
        self.query()
        revision = _revision()
        rows = PinnedArguments.objects.select_related("changed_by")
        return self.answer(PinnedSerializer({"revision": revision, "pins": rows}).data, revision)


class PinsView(KeeperView):
    """The pinned arguments of one tool."""

    @extend_schema(operation_id="policy_pins_read", responses=PinsSerializer)
    def get(self, request: Request, family: str, surface: str, name: str) -> Response:
        """Return what is pinned of a tool."""
        self.query()
        revision = _revision()
        row = (
            PinnedArguments.objects.select_related("changed_by")
            .filter(family=family, surface=surface, endpoint=name)
            .first()
        )
        if row is None:
            raise NotFound("No arguments of that tool are pinned.")
        return self.answer(PinsSerializer(row).data, revision)

    @extend_schema(
        operation_id="policy_pins_set",
        request=NewPinsSerializer,
        responses=PinsSerializer,
        parameters=[_IF_MATCH],
    )
    def put(self, request: Request, family: str, surface: str, name: str) -> Response:
        """Set arguments of a tool for every call, in place of what was pinned of it before."""
        fields = self.body(NewPinsSerializer)
        spec = specification_at((family, surface, name))
        if spec is None:
            raise NotFound("There is no such tool to pin arguments of.")
        try:
            row = services.pin_arguments(
                actor=self.member,
                spec=spec,
                values=fields["values"],
                revision=self.seen(),
                note=fields["note"],
            )
        except StalePolicy as stale:
            raise OtherRevision(stale.message, field="If-Match") from stale
        return self.answer(PinsSerializer(row).data, _revision())

    @extend_schema(operation_id="policy_pins_drop", responses={204: None}, parameters=[_IF_MATCH])
    def delete(self, request: Request, family: str, surface: str, name: str) -> Response:
        """Leave all arguments of a tool to whoever calls it."""
        try:
            services.unpin_arguments(
                actor=self.member, path=(family, surface, name), revision=self.seen()
            )
        except StalePolicy as stale:
            raise OtherRevision(stale.message, field="If-Match") from stale
        return Response(status=status.HTTP_204_NO_CONTENT)


def _revision() -> int:
    return PolicyState.objects.values_list("revision", flat=True).first() or 0


def _changes(given: list[dict[str, Any]]) -> dict[Path, NodeState]:
    changes = {_node(one["node"]): NodeState(one["state"]) for one in given}
    if len(changes) != len(given):
        raise BadPolicy("A node is named twice.", field="changes")
    return changes


def _node(words: str) -> Path:
    path: Path = () if words == ROOT_WORD else tuple(words.split("/"))
    check_path(path)
    return path

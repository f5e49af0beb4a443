"""How is a declared request of a package carried out? By us, with proof that no package sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from django.conf import settings
from django.db import connection

from apps.accounts.models import User
from apps.broker.calling import Performed, perform
from apps.broker.errors import ConnectionMissing
from apps.broker.selectors import connection_of, secret_for, token_of
from apps.core.deadlines import Deadline
from apps.core.errors import Refusal
from apps.domain.egress import Network, NetworkKind
from apps.domain.handing import AskedPause
from apps.domain.httptools import BadRequest, HttpTool, Request, prepare
from apps.domain.manifests import PackageTool as Declared
from apps.domain.tooling import Paused, Reason, Specification, ToolFailure, ToolOk
from apps.packages.models import PackageTool
from apps.tools.contract import CallContext
from apps.tools.credentials import Operation

_REQUEST: Final = "request"
_BINDING: Final = "connection:"
_POSTURES: Final = {
    NetworkKind.NONE: "none",
    NetworkKind.ALLOWLIST: "allowlist",
    NetworkKind.PUBLIC: "unrestricted",
}


def network_allowed(network: Network) -> bool:
    """Tell whether this deployment lets packages have such a network."""
    return not network or _POSTURES[network.kind] in settings.KAIZEN_PACKAGE_NETWORKS


def call_request(
    declared: Declared,
    arguments: dict[str, Any],
    context: CallContext,
    *,
    hidden: Sequence[str] = (),
) -> ToolOk | ToolFailure:
    """Carry out one call of a tool that is a declared request; what is hidden never comes back."""
    tool = declared.request
    if tool is None:
        raise LookupError(f"{declared.tool_name} is no declared request.")
    try:
        request = prepare(tool, arguments)
        performed = _performed(declared, tool, request, context, hidden)
    except BadRequest as wrong:
        return ToolFailure(Reason.INVALID_ARGUMENTS, f"{wrong} Nothing was sent.")
    except Refusal as missing:
        return ToolFailure(Reason.DEPENDENCY_UNAVAILABLE, f"{missing.message} Nothing was sent.")
    facts = {"secrets": list(tool.secrets), **performed.facts}
    return replace(performed.result, provenance={"request": facts})


def _performed(
    declared: Declared,
    tool: HttpTool,
    request: Request,
    context: CallContext,
    hidden: Sequence[str],
) -> Performed:
    asked: dict[str, Any] = {
        "tool": tool,
        "request": request,
        "changes_something": declared.mutating,
        "cancelled": context.cancelled,
    }
    if tool.authorization is not None and tool.authorization.connection:
        if context.credential is None:
            raise ConnectionMissing("The call is bound to no connection.")
        done: Performed = context.credential.operate(_REQUEST, asked)
        return done
    package = declared.ref.partition("@")[0]
    proof = "".join(secret_for(package=package, need=name) for name in tool.secrets)
    # The other side may take its whole time: no connection is held while it does.
    connection.close()
    return perform(proof=proof, seconds=context.deadline.remaining, hidden=hidden, **asked)


def hand_link_on(
    declared: Declared, asked: AskedPause, context: CallContext
) -> Paused | ToolFailure:
    """Send what a tool that pauses wants to be asked, with the link that its code never sees."""
    courier = declared.courier
    if courier is None:
        raise LookupError(f"{declared.tool_name} names nobody who carries its link.")
    link = context.wait_link()
    given = asked.with_link(link)
    errors = courier.specification().argument_errors(given)
    if errors:
        said = f"What the tool wants to be asked does not fit {courier.tool_name}. {errors[0]}"
        return ToolFailure(Reason.CONTRACT_ERROR, f"{said} Nothing was sent.")
    token = link.rpartition("/")[2]
    ended = call_request(courier, given, context, hidden=(link, token))
    if isinstance(ended, ToolFailure):
        return ended
    return Paused(asked.seconds, provenance=ended.provenance)


class Connections:
    """The adapter for accounts at other systems: it alone turns a binding into a request."""

    def binding_for(self, *, spec: Specification, member: User) -> str | None:
        """Name the connection that a call of this tool would use as this member, if any."""
        need = _need_of(spec)
        if need is None:
            return None
        owner = member if need["as"] == "person" else None
        try:
            found = connection_of(app=need["app"], permissions=need["permissions"], member=owner)
        except ConnectionMissing:
            return None
        return f"{_BINDING}{found.pk}"

    def account_of(self, *, spec: Specification, member: User) -> str:
        """Say in words as whose account a call of this tool would act for this member."""
        need = _need_of(spec)
        if need is None:
            return ""
        whose = f"{member.name}'s" if need["as"] == "person" else "the company's"
        return f"{whose} connection to {need['app']}"

    def operate(
        self, *, binding: str, operation: Operation, call_id: Any, deadline: Deadline
    ) -> Performed:
        """Send one request with the connection's token; the token stays here."""
        if operation.word != _REQUEST or not binding.startswith(_BINDING):
            raise LookupError("No adapter carries that out.")
        token = token_of(binding.removeprefix(_BINDING))
        connection.close()
        return perform(proof=token, seconds=deadline.remaining, **operation.arguments)


def _need_of(spec: Specification) -> dict[str, Any] | None:
    """Return the connection that an admitted tool declares: to which app, as whom, for what."""
    row = PackageTool.objects.filter(
        name=spec.name, version__ref=spec.source.removeprefix("package:")
    ).first()
    if row is None:
        return None
    named = row.definition["spec"]["authorization"]["connection"]
    need: dict[str, Any] = row.definition["needsSpec"]["connections"][named]
    return need

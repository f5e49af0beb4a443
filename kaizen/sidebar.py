"""What stands in the admin's sidebar and on its first page, for whoever is signed in?"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.approvals.models import ApprovalRequest
from apps.proposals.selectors import count_waiting_proposals

HEALTH = "admin_health"
"""A page of no model: every administrator may open it, as they may read the same of `/readyz`."""

_GROUPS: tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        "Review",
        (
            (
                "Review queue",
                "inbox",
                "proposals.packageproposal",
                "Decide on what authors sent in",
            ),
            ("Packages", "deployed_code", "packages.package", "What is admitted, and its switch"),
            ("Agents", "smart_toy", "agents.agent", "Who acts, and how far each may reach"),
        ),
    ),
    (
        "Control",
        (
            ("Tool policy", "account_tree", "grants.policynode", "What agents may call, and why"),
            ("Pinned arguments", "push_pin", "grants.pinnedarguments", "What calls always carry"),
            ("Grants", "key", "grants.toolgrant", "Which agent holds which tool"),
            ("Approvals", "back_hand", "approvals.approvalrequest", "What members were asked"),
            ("Approval rules", "gavel", "approvals.approvalrule", "What is asked, and of whom"),
            (
                "Unattended",
                "alarm",
                "approvals.unattendedallowance",
                "What triggers may use without a yes",
            ),
            (
                "Automations",
                "schedule",
                "automations.automation",
                "What members let start by itself",
            ),
            ("Quotas", "speed", "quotas.quota", "How much members and agents may use"),
            ("Prices", "payments", "quotas.price", "What the tokens of models cost"),
            ("Secrets", "lock", "broker.secret", "What requests of packages carry, never shown"),
            ("Secret grants", "key_vertical", "broker.secretgrant", "Which package uses which"),
            ("Connections", "cable", "broker.connection", "Accounts at other systems"),
            ("People", "group", "accounts.user", "Members and administrators"),
        ),
    ),
    (
        "Watch",
        (
            ("Health", "monitor_heart", HEALTH, "Whether every part works, and how to mend it"),
            ("Runs", "timeline", "runs.run", "What agents are doing, and for whom"),
            ("Calls", "bolt", "runs.call", "Every proposed use of a tool"),
            ("Unasked", "forward", "approvals.waiver", "Calls that passed without a question"),
            ("Rooms", "forum", "rooms.room", "Where people and agents meet"),
            ("Artifacts", "draft", "artifacts.artifact", "What was made, version by version"),
            ("Workspaces", "folder", "sandbox.workspace", "Files that agents work with"),
            ("Usage", "data_usage", "quotas.meter", "What was used, by whom and when"),
            ("Reservations", "hourglass_top", "quotas.reservation", "What is held for what runs"),
            ("Audit", "list_alt", "audit.auditrow", "What happened, and who did it"),
            ("Seals", "verified", "audit.auditseal", "What shows that the trail is whole"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of pages that the signed-in person may open, with what waits in them."""
    user = request.user
    if not isinstance(user, User):
        return []
    badges = _waiting(user)
    groups = []
    for title, entries in _GROUPS:
        items = [
            _item(words, icon, model, about, badges)
            for words, icon, model, about in entries
            if _opens(user, model)
        ]
        if items:
            groups.append({"title": title, "items": items})
    return groups


def _item(words: str, icon: str, model: str, about: str, badges: dict[str, int]) -> dict[str, Any]:
    page = HEALTH if model == HEALTH else f"admin:{model.replace('.', '_')}_changelist"
    link = reverse(page)
    item: dict[str, Any] = {"title": words, "icon": icon, "link": link, "about": about}
    if badges.get(model):
        item["badge"] = badges[model]
        item["badge_variant"] = "primary"
    return item


def _opens(user: User, model: str) -> bool:
    if model == "proposals.packageproposal":
        return may(user, Permission.PROPOSAL_REVIEW)
    if model == HEALTH:
        return user.is_active and user.is_staff
    app, _, name = model.partition(".")
    return user.has_perm(f"{app}.view_{name}")


def _waiting(user: User) -> dict[str, int]:
    counts = {}
    if may(user, Permission.PROPOSAL_REVIEW):
        counts["proposals.packageproposal"] = count_waiting_proposals()
    if user.has_perm("approvals.view_approvalrequest"):
        pending = ApprovalRequest.objects.filter(state=ApprovalRequest.State.PENDING)
        counts["approvals.approvalrequest"] = pending.count()
    return counts

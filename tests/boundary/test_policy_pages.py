"""The pages of the tool policy: what holds and why, and what a change does before it is one."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import Permission as PermissionRow
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.audit.models import AuditRow
from apps.automations.services import revoke_automation
from apps.domain.policy import ROOT, NodeState
from apps.grants.models import PinnedArguments, PolicyNode, PolicyState, ToolGrant
from apps.grants.services import change_policy
from apps.packages.models import Package, PackageTool, PackageVersion
from apps.rooms.models import Room
from apps.runs.models import Run
from tests.factories.automations import make_automation

TREE = "/admin/grants/policynode/"
PINS = "/admin/grants/pinnedarguments/"
OFF, ON = NodeState.DISABLED, NodeState.ALLOWED


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x", display_name="Ines Moreau")


@pytest.fixture
def admin(ines: User) -> Client:
    client = Client()
    client.force_login(ines)
    return client


def make_packages(author: User, packages: int, tools: int) -> None:
    """Admitted packages with so many tools each, as rows."""
    rows = [Package(name=f"pack-{number:04}", author=author) for number in range(packages)]
    Package.objects.bulk_create(rows)
    versions = [
        PackageVersion(
            package=row,
            ref=f"{row.name}@1.0.0",
            version="1.0.0",
            format="python",
            manifest={},
            artifact_hash="",
            contract_digest="",
            author=author,
            admitted_by=author,
        )
        for row in rows
    ]
    PackageVersion.objects.bulk_create(versions)
    for row, version in zip(rows, versions, strict=True):
        row.active_version = version
    Package.objects.bulk_update(rows, ["active_version"])
    PackageTool.objects.bulk_create(
        [
            PackageTool(
                version=version,
                name=f"pkg_{version.package.name}_t{number}",
                definition_id=f"Tool {number}",
                entry="a:b",
                collaboration_class="actor_bound_read",
                definition={"mutating": number % 2 == 0},
            )
            for version in versions
            for number in range(tools)
        ]
    )


class Lines(HTMLParser):
    """The lines of the tree: what stands in each, and which switches there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: dict[str, str] = {}
        self.fields: dict[str, list[str]] = {}
        self.chosen: dict[str, str] = {}
        self._row: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "tr":
            self._row = ""
        elif tag == "input" and name.startswith("node:"):
            self.fields.setdefault(name, []).append(given["value"] or "")
            if "checked" in given:
                self.chosen[name] = given["value"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._row:
            words = self._row.split()
            self.rows[" ".join(words)] = self._row
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._row is not None:
            self._row += f" {data}"

    def line(self, name: str) -> str:
        return next(row for row in self.rows if re.search(rf"(^| ){re.escape(name)}( |$)", row))


def lines(client: Client, query: str = "") -> Lines:
    answer = client.get(TREE + query)
    assert answer.status_code == 200
    return Lines(answer.content.decode())


def text(answer: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def test_the_tree_shows_every_level_with_its_switch_and_what_is_in_effect(
    admin: Client, ines: User
) -> None:
    make_packages(ines, 2, 3)
    shown = lines(admin)
    assert shown.fields["node:"] == ["unset", "disabled"]
    assert shown.fields["node:kaizen"] == ["unset", "disabled"]
    assert shown.fields["node:kaizen/artifacts"] == ["unset", "allowed", "disabled"]
    assert shown.fields["node:kaizen/artifacts/create_artifact"] == ["unset", "allowed", "disabled"]
    assert "3 of 3 callable" in shown.line("pack-0000")
    # Surfaces of packages are opened one by one.
    assert "node:packages/pack-0000/pkg_pack-0000_t1" not in shown.fields
    opened = lines(admin, "?open=packages/pack-0000")
    assert "Callable, asks" in opened.line("pkg_pack-0000_t0")
    assert "Callable , why? follows" in opened.line("pkg_pack-0000_t1")
    assert "node:packages/pack-0001/pkg_pack-0001_t1" not in opened.fields


def test_what_is_blocked_says_by_what_and_the_reason_goes_from_the_root_down(
    admin: Client, ines: User
) -> None:
    change_policy(
        actor=ines,
        revision=0,
        changes={
            ("kaizen", "artifacts", "create_artifact"): ON,
            ("kaizen", "artifacts"): OFF,
        },
        note="until the review is done",
    )
    shown = lines(admin)
    assert "Blocked by artifacts" in shown.line("create_artifact")
    assert shown.chosen["node:kaizen/artifacts"] == "disabled"
    assert shown.chosen["node:kaizen/artifacts/create_artifact"] == "allowed"
    why = text(admin.get(f"{TREE}?why=kaizen/artifacts/create_artifact"))
    assert "No agent can call this. Stopped at the surface artifacts." in why
    assert "by Ines Moreau: “until the review is done”" in why
    assert "It has no say: an Off above always wins." in why
    fine = text(admin.get(f"{TREE}?why=kaizen/docs/search_about"))
    assert "The tree lets it through." in fine


def test_a_search_finds_tools_and_surfaces_by_a_part_of_their_name(
    admin: Client, ines: User
) -> None:
    make_packages(ines, 3, 4)
    found = lines(admin, "?q=0001_T2")
    tools = [name for name in found.fields if name.count("/") == 2]
    assert tools == ["node:packages/pack-0001/pkg_pack-0001_t2"]
    nothing = admin.get(f"{TREE}?q=no-such-thing")
    assert "No tool or surface is called like" in text(nothing)


def test_filters_show_what_was_said_and_what_is_blocked(admin: Client, ines: User) -> None:
    make_packages(ines, 2, 2)
    tool = ("packages", "pack-0001", "pkg_pack-0001_t0")
    change_policy(
        actor=ines, revision=0, changes={tool: ON, ("kaizen", "docs"): OFF, ("mcp", "deploy"): ON}
    )
    said = lines(admin, "?show=set")
    assert sorted(name for name in said.fields if name.count("/") == 2) == [
        "node:packages/pack-0001/pkg_pack-0001_t0"
    ]
    # A surface that was let in before it has any tool.
    assert "No tools yet" in said.line("deploy")
    blocked = lines(admin, "?show=blocked")
    assert [name for name in blocked.fields if name.count("/") == 2] == [
        "node:kaizen/docs/search_about"
    ]


def test_a_tool_that_is_gone_keeps_its_line_while_something_is_said_of_it(
    admin: Client, ines: User
) -> None:
    change_policy(actor=ines, revision=0, changes={("kaizen", "docs", "old_tool"): ON})
    assert "No such tool now" in lines(admin).line("old_tool")


def test_the_page_costs_the_same_for_thousands_of_tools(admin: Client, ines: User) -> None:
    def cost(query: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin.get(TREE + query).status_code == 200
        return len(captured)

    queries = ("", "?open=packages/pack-0000", "?q=t1", "?show=blocked", "?why=packages/pack-0000")
    make_packages(ines, 1, 2)
    few = [cost(query) for query in queries]
    PackageTool.objects.all().delete()
    Package.objects.update(active_version=None)
    PackageVersion.objects.all().delete()
    Package.objects.all().delete()
    make_packages(ines, 120, 32)
    assert [cost(query) for query in queries] == few
    assert max(few) <= 12
    first = lines(admin)
    assert sum(name.count("/") == 1 for name in first.fields) == 50
    second = lines(admin, "?page=2")
    assert not {n for n in first.fields if n.count("/") == 1} & {
        n for n in second.fields if n.count("/") == 1
    }
    found = lines(admin, "?q=pkg_pack")
    assert sum(name.count("/") == 2 for name in found.fields) == 200
    assert "3,640 more" in text(admin.get(f"{TREE}?q=pkg_pack")).replace("3640", "3,640")


@pytest.mark.parametrize(
    "query",
    ["?page=999999", "?page=x", "?show=odd", "?q=%00", "?why=a/b/c/d/e", "?why=%00", "?open="],
)
def test_odd_questions_are_answered_with_the_page(admin: Client, query: str) -> None:
    assert admin.get(TREE + query).status_code == 200


# --- changing it


def look(client: Client, revision: int = 0, **said: str) -> Any:
    fields = {f"node:{path.replace('__', '/')}": state for path, state in said.items()}
    return client.post(f"{TREE}preview/", {"revision": revision, **fields})


def test_what_a_change_does_is_said_before_it_is_saved(
    admin: Client, ines: User, run: Run, agent: Agent
) -> None:
    make_packages(ines, 1, 3)
    version = PackageVersion.objects.get()
    ToolGrant.objects.create(
        agent=agent, version=version, tool_name="pkg_pack-0000_t1", granted_by=ines
    )
    answer = admin.post(
        f"{TREE}preview/",
        {
            "revision": 0,
            "node:packages": "disabled",
            "node:kaizen/docs": "disabled",
            "node:": "unset",
        },
    )
    said = text(answer)
    assert "2 changes, 4 tools affected" in said
    for name in ("pkg_pack-0000_t0", "pkg_pack-0000_t1", "pkg_pack-0000_t2", "search_about"):
        assert name in said
    assert "create_artifact" not in said
    assert "1 agent could use them; 1 run that goes on is affected at its next call" in said
    assert not PolicyNode.objects.exists()
    # Exactly what was shown is what is sent on.
    assert sorted(re.findall(r'name="(node:[^"]*)"', answer.content.decode())) == [
        "node:kaizen/docs",
        "node:packages",
    ]
    saved = admin.post(
        f"{TREE}save/",
        {
            "revision": 0,
            "node:packages": "disabled",
            "node:kaizen/docs": "disabled",
            "note": "stop",
        },
    )
    assert saved.status_code == 302
    assert {(node.path, node.state, node.note) for node in PolicyNode.objects.all()} == {
        (("packages",), "disabled", "stop"),
        (("kaizen", "docs"), "disabled", "stop"),
    }
    assert AuditRow.objects.get(action="policy.changed").actor == ines.key
    assert "revision 1" in text(admin.get(TREE)).casefold()


def test_what_is_let_in_is_named_as_well(admin: Client, ines: User) -> None:
    change_policy(actor=ines, revision=0, changes={ROOT: OFF})
    said = text(look(admin, revision=1, **{"": "unset"}))
    assert "No tool is taken away." in said
    assert "create_artifact" in said


def test_looking_over_no_change_saves_nothing(admin: Client) -> None:
    answer = look(admin, kaizen="unset", kaizen__docs="unset")
    assert answer.status_code == 302
    assert not PolicyState.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"revision": "7", "node:kaizen": "disabled"},
        {"revision": "", "node:kaizen": "disabled"},
        {"node:kaizen": "disabled"},
        {"revision": "0", "node:kaizen": "perhaps"},
        {"revision": "0", "node:kaizen": "allowed"},
        {"revision": "0", "node:a/b/c/d": "disabled"},
        {"revision": "0", "node:kaizen//x": "disabled"},
    ],
)
def test_a_change_that_makes_no_sense_or_comes_late_is_refused_and_written_down(
    admin: Client, fields: dict[str, str]
) -> None:
    for address in ("preview/", "save/"):
        assert admin.post(TREE + address, fields).status_code == 302
    assert not PolicyNode.objects.exists()
    rows = AuditRow.objects.filter(action="policy.change_refused", outcome="refused")
    assert rows.count() == 2


def test_what_cannot_be_read_stays_shut_when_something_else_is_saved(
    admin: Client, ines: User
) -> None:
    change_policy(actor=ines, revision=0, changes={("kaizen", "docs"): OFF})
    PolicyNode.objects.update(state="perhaps")
    shown = lines(admin)
    assert "Cannot be read" in shown.line("docs")
    assert "node:kaizen/docs" not in shown.chosen
    admin.post(f"{TREE}save/", {"revision": 1, **shown.chosen, "node:packages": "disabled"})
    assert PolicyNode.objects.get(surface="docs").state == "perhaps"


def test_the_pages_are_for_those_with_the_duty(client: Client, db: None) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    client.force_login(staff)
    for address in (TREE, PINS, f"{TREE}explain/", f"{PINS}set/kaizen/docs/search_about/"):
        assert client.get(address).status_code == 403
    staff.user_permissions.add(PermissionRow.objects.get(codename="view_policynode"))
    # Who may look may not change, and is not shown how.
    page = client.get(TREE)
    assert page.status_code == 200
    assert "Look over and save" not in page.content.decode()
    assert client.post(f"{TREE}preview/", {"revision": 0}).status_code == 403
    assert client.post(f"{TREE}save/", {"revision": 0}).status_code == 403
    assert client.get(f"{TREE}save/").status_code in (403, 405)
    assert client.post(f"{PINS}remove/kaizen/docs/search_about/").status_code == 403


# --- trying a call


def test_a_call_is_explained_for_anybody(
    admin: Client, room: Room, agent: Agent, member: User, ines: User
) -> None:
    empty = text(admin.get(f"{TREE}explain/"))
    assert "Nothing is called, and nothing is written." in empty
    asked = {
        "agent": agent.slug,
        "room": str(room.pk),
        "tool": "create_artifact",
        "member": member.username,
    }
    assert "Allowed" in text(admin.get(f"{TREE}explain/", asked))
    change_policy(actor=ines, revision=0, changes={("kaizen",): OFF})
    said = text(admin.get(f"{TREE}explain/", asked))
    assert "Not allowed" in said
    assert "switches off the source kaizen" in said
    assert "Is the room open?" in said
    for wrong in ({"room": "no-id"}, {"agent": "nobody"}, {"member": "nobody"}):
        answer = admin.get(f"{TREE}explain/", {**asked, **wrong})
        assert "There is no such room, agent, member or automation" in text(answer)


def test_a_call_is_explained_for_an_automation(
    admin: Client, room: Room, agent: Agent, member: User
) -> None:
    automation = make_automation(member, agent, room).automation
    asked = {"automation": str(automation.pk), "tool": "create_artifact"}
    said = text(admin.get(f"{TREE}explain/", asked))
    assert "Allowed" in said
    assert f"in {room.name}, started by {automation.name}." in said
    revoke_automation(automation_id=automation.pk, actor=member)
    said = text(admin.get(f"{TREE}explain/", asked))
    assert "Not allowed" in said
    assert "The automation behind this run was revoked." in said
    for wrong in ({"automation": "no-id"}, {"automation": str(room.pk)}):
        answer = text(admin.get(f"{TREE}explain/", {**asked, **wrong}))
        assert "There is no such room, agent, member or automation" in answer
    both = text(admin.get(f"{TREE}explain/", {**asked, "agent": agent.slug}))
    assert "An automation has its own agent, room and member" in both


# --- pinning


def test_arguments_are_pinned_by_a_form_and_removed_again(admin: Client, ines: User) -> None:
    address = f"{PINS}set/kaizen/artifacts/create_artifact/"
    form = admin.get(address).content.decode()
    assert 'name="arg:kind"' in form
    assert "required" in form
    saved = admin.post(
        address, {"revision": 0, "arg:kind": '"markdown"', "arg:title": " ", "note": "only notes"}
    )
    assert saved.status_code == 302
    row = PinnedArguments.objects.get()
    assert (row.values, row.note, row.changed_by) == ({"kind": "markdown"}, "only notes", ines)
    assert "&quot;markdown&quot;" in admin.get(saved["Location"]).content.decode()
    assert "create_artifact" in text(admin.get(PINS))
    assert "&quot;markdown&quot;" in admin.get(address).content.decode()
    removed = admin.post(f"{PINS}remove/kaizen/artifacts/create_artifact/")
    assert removed.status_code == 302
    assert not PinnedArguments.objects.exists()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("markdown", "JSON"),
        ('"song"', "not valid"),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_what_cannot_be_pinned_is_said_beside_its_field_and_kept(
    admin: Client, typed: str, says: str
) -> None:
    address = f"{PINS}set/kaizen/artifacts/create_artifact/"
    answer = admin.post(address, {"revision": 0, "arg:kind": typed})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert 'aria-invalid="true"' in page
    assert says in text(answer)
    assert typed.replace('"', "&quot;") in page
    assert AuditRow.objects.filter(action="policy.pin_refused").exists()
    assert not PinnedArguments.objects.exists()


def test_a_tool_that_is_not_there_has_nothing_to_pin(admin: Client) -> None:
    for words in ("kaizen/artifacts/fly", "kaizen/docs/create_artifact", "packages/a/b"):
        assert admin.get(f"{PINS}set/{words}/").status_code == 302
    assert admin.post(f"{PINS}remove/kaizen/artifacts/fly/").status_code == 302
    assert reverse("admin:grants_pinnedarguments_changelist") == PINS

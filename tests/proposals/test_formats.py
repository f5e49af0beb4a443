"""What does a test of a Node or Pi package come to, from the draft to its receipt and its calls?"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.domain.manifests import parse_manifest
from apps.packages.models import PackageVersion
from apps.proposals import services
from apps.proposals.errors import InvalidPackage, NoCurrentReceipt
from apps.proposals.models import PackageProposal, ProposalTest
from apps.proposals.selectors import current_receipt, proposal_sheet
from apps.sandbox.store import REST_SECONDS, the_store
from apps.tools.packaged import call_packaged
from tests.factories import locks
from tests.factories import packages as plain
from tests.factories import pi as made
from tests.proposals.conftest import give_receipt
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon

__all__ = ["daemon", "sandbox_home"]

pytestmark = pytest.mark.django_db(transaction=True)

NODE_TOOL = b"export const convert = ({ celsius }) => ({ fahrenheit: (celsius * 9) / 5 + 32 });\n"
NODE_TEST = b"""import test from "node:test";
import assert from "node:assert";
import { convert } from "./tool.mjs";
test("water boils", () => assert.deepEqual(convert({ celsius: 100 }), { fahrenheit: 212 }));
"""


def node_manifest(**changes: Any) -> dict[str, Any]:
    raw = plain.manifest(format="node", **changes)
    raw["tools"][0]["entry"] = "tool.mjs#convert"
    return raw


def node_tree(needs: dict[str, locks.Published] | None = None) -> dict[str, bytes]:
    files = locks.needing("weather", needs or {})
    if not needs:
        del files["package-lock.json"]
    return files | {"tool.mjs": NODE_TOOL, "tool.test.mjs": NODE_TEST}


def draft(author: User, manifest: dict[str, Any], files: dict[str, bytes]) -> PackageProposal:
    return services.create_proposal(author=author, manifest=manifest, files=files)


def examined(proposal: PackageProposal) -> ProposalTest:
    test = services.request_test(proposal_id=proposal.pk, member=proposal.author)
    services.execute_test(test_id=test.pk)
    test.refresh_from_db()
    return test


def pi_draft(author: User, **changes: Any) -> PackageProposal:
    return draft(author, changes.pop("manifest", made.manifest()), made.tree(**changes))


@pytest.fixture
def supervised(settings: Any, daemon: Daemon) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)


@pytest.mark.sandbox
@pytest.mark.usefixtures("supervised")
class TestInTheSandbox:
    def test_a_pi_package_passes_with_what_its_loader_found(
        self, author: User, reviewer: User
    ) -> None:
        proposal = pi_draft(author)
        test = examined(proposal)
        assert (test.state, test.ran, test.failed) == ("passed", 1, 0), test.explanation
        assert test.runtime.startswith("Pi 1.6.0 on Node 2")
        assert test.surface == {
            "runtime_version": "1.6.0", "tests_ran": True, "tools": ["roll"], "skills": [],
            "prompts": [], "themes": [], "unsupported": [], "diagnostics": [],
        }  # fmt: skip
        services.submit_proposal(proposal_id=proposal.pk, author=author)
        services.approve_proposal(proposal_id=proposal.pk, reviewer=reviewer)
        manifest = parse_manifest(PackageVersion.objects.get(ref="dice@1.0.0").manifest)
        reply = call_packaged(manifest.tools[0], manifest, made.tree(), {"sides": 6}, deadline_s=60)
        assert reply.ok, reply
        assert reply.value == {
            "content": [{"type": "text", "text": "a 6"}], "details": {"most": 6},
        }  # fmt: skip

    def test_an_unsupported_registration_fails_it(self, author: User) -> None:
        extension = made.EXTENSION.replace(
            b"(pi: ExtensionAPI) {",
            b"(pi: ExtensionAPI) {\n  pi.registerCommand?.('go', { handler: async () => {} });",
        )
        proposal = pi_draft(author, extension=extension)
        test = examined(proposal)
        assert (test.state, current_receipt(proposal)) == ("failed", None)
        assert test.surface["unsupported"] == [
            {"kind": "command", "name": "go", "path": "extensions/dice.ts"}
        ]
        assert "a command go" in test.explanation

    def test_another_schema_than_reviewed_fails_it(self, author: User) -> None:
        extension = made.EXTENSION.replace(b"minimum: 2", b"minimum: 1")
        test = examined(pi_draft(author, extension=extension))
        assert test.state == "failed"
        assert [one["rule"] for one in test.surface["diagnostics"]] == ["schema"]

    def test_red_tests_end_it_before_anything_is_loaded(self, author: User) -> None:
        red = b"import test from 'node:test'; test('red', () => { throw new Error('x'); });"
        test = examined(pi_draft(author, files={"red.test.ts": red}))
        assert (test.state, test.ran, test.failed) == ("failed", 2, 1)
        assert (test.surface["tests_ran"], test.surface["runtime_version"]) == (True, "")

    def test_the_loader_sees_nothing_that_tests_rewrote(self, author: User) -> None:
        rewriting = b"""import test from "node:test";
import fs from "node:fs";
test("rewrites", () => {
  fs.writeFileSync("extensions/dice.ts", "export default (pi) => pi.on('turn_end', () => {});");
});
"""
        test = examined(pi_draft(author, files={"zz.test.ts": rewriting}))
        assert test.state == "passed", test.explanation

    def test_instructions_alone_need_no_test_of_their_own(self, author: User) -> None:
        proposal = draft(author, made.skill_manifest(), made.skill_tree())
        test = examined(proposal)
        assert (test.state, test.ran) == ("passed", 0), test.explanation
        assert test.surface["skills"] == [{"name": "rolling", "path": "skills/rolling/SKILL.md"}]
        assert test.surface["tests_ran"] is False

    def test_another_text_than_reviewed_fails_it(self, author: User) -> None:
        files = made.skill_tree(made.SKILL + b"And cheat.\n")
        test = examined(draft(author, made.skill_manifest(), files))
        assert [one["rule"] for one in test.surface["diagnostics"]] == ["body"]

    def test_a_node_package_passes_with_its_own_tests(self, author: User) -> None:
        test = examined(draft(author, node_manifest(), node_tree()))
        assert (test.state, test.ran) == ("passed", 1), test.explanation
        assert test.runtime.startswith("Node 2")

    @pytest.mark.parametrize("kind", ["node", "pi"])
    def test_the_runner_has_a_deadline_of_its_own(self, settings: Any, kind: str) -> None:
        settings.PKG_RUNNER_TIMEOUT_SECONDS = 3
        if kind == "node":
            manifest = parse_manifest(node_manifest())
            files = node_tree() | {"tool.mjs": b"export const convert = () => { for (;;); };"}
        else:
            manifest = parse_manifest(made.manifest())
            files = made.tree(extension=b"for (;;);")
        reply = call_packaged(manifest.tools[0], manifest, files, {"celsius": 1}, deadline_s=240)
        assert reply.kind == "timeout"


def test_without_a_sandbox_nothing_takes_the_loaders_place(
    author: User, settings: Any, tmp_path: Path
) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(tmp_path / "nobody")
    for proposal in (
        pi_draft(author),
        draft(author, made.skill_manifest(name="rules", ref="rules@1.0.0"),
              made.skill_tree(name="rules")),
        draft(author, node_manifest(), node_tree()),
    ):  # fmt: skip
        test = examined(proposal)
        assert (test.state, current_receipt(proposal)) == ("error", None)
        assert "not running" in test.explanation


def test_dependencies_that_cannot_be_had_are_said(author: User, settings: Any) -> None:
    settings.PKG_RUNNER_OFFLINE = True
    proposal = draft(author, node_manifest(), node_tree({"alpha": locks.published("alpha")}))
    test = examined(proposal)
    assert (test.state, "PKG_RUNNER_OFFLINE" in test.explanation) == ("error", True)


def test_a_draft_with_loose_dependencies_is_refused_by_field_and_rule(author: User) -> None:
    files = node_tree()
    files["package.json"] = locks.package_json(
        "weather", dependencies={"alpha": "^1.0.0"}, scripts={"postinstall": "x"}
    )
    with pytest.raises(InvalidPackage) as refused:
        draft(author, node_manifest(), files)
    said = json.dumps(refused.value.extra)
    assert "exact_pin" in said
    assert "lifecycle_script" in said


def test_a_changed_schema_clears_the_evidence_of_a_pi_package(author: User) -> None:
    proposal = pi_draft(author)
    give_receipt(proposal)
    manifest = made.manifest(description="Other words.")
    services.replace_draft(proposal_id=proposal.pk, author=author, revision=1, manifest=manifest)
    with pytest.raises(NoCurrentReceipt):
        services.submit_proposal(proposal_id=proposal.pk, author=author)


def test_the_needs_of_a_proposal_are_listed_for_its_author(author: User) -> None:
    alpha = locks.published("alpha")
    proposal = draft(author, node_manifest(), node_tree({"alpha": alpha}))
    sheet = proposal_sheet(proposal_id=proposal.pk, user=author)
    assert [(one.name, one.version) for one in sheet.locked] == [("alpha", "1.0.0")]
    assert len(proposal.dependencies) == 64


def test_only_trees_that_nobody_names_are_collected(
    author: User, settings: Any, tmp_path: Path
) -> None:
    settings.KAIZEN_DEPENDENCIES_DIR = tmp_path
    proposal = draft(author, node_manifest(), node_tree({"alpha": locks.published("alpha")}))
    store = the_store()
    for digest in (proposal.dependencies, "0" * 64):
        with store.draft(digest):
            pass
        place = store.folder / digest
        resting = place.stat().st_mtime - REST_SECONDS - 60
        os.utime(place, (resting, resting))
    assert services.collect_dependencies() == 1
    assert (store.has(proposal.dependencies), store.has("0" * 64)) == (True, False)
    resting = (store.folder / proposal.dependencies).stat().st_mtime - REST_SECONDS - 60
    os.utime(store.folder / proposal.dependencies, (resting, resting))
    services.withdraw_proposal(proposal_id=proposal.pk, author=author)
    assert services.collect_dependencies() == 1


FOUND = {
    "runtime_version": "1.6.0",
    "tests_ran": True,
    "tools": ["roll"],
    "skills": [],
    "prompts": [],
    "themes": [],
    "unsupported": [{"kind": "command", "name": "go", "path": "extensions/dice.ts"}],
    "diagnostics": [{"path": "extensions/dice.ts", "rule": "unsupported", "message": "<b>go</b>"}],
}


def test_reviewers_and_authors_see_what_the_loader_found(
    author: User, reviewer: User, client: Client
) -> None:
    proposal = pi_draft(author)
    give_receipt(proposal)
    services.submit_proposal(proposal_id=proposal.pk, author=author)
    test = give_receipt(proposal, "failed", surface=FOUND)
    client.force_login(reviewer)
    place = reverse("admin:proposals_packageproposal_change", args=[proposal.pk])
    page = client.get(place).content.decode()
    assert "Pi package" in page
    assert "&lt;b&gt;go&lt;/b&gt;" in page
    api = APIClient()
    api.force_authenticate(author)
    told = api.get(f"/api/v1/proposals/{proposal.pk}/tests/{test.pk}").json()
    assert told["surface"] == FOUND


def test_reviewers_and_authors_see_what_would_be_installed(
    author: User, reviewer: User, client: Client
) -> None:
    alpha = locks.published("alpha")
    proposal = draft(author, node_manifest(), node_tree({"alpha": alpha}))
    give_receipt(proposal)
    services.submit_proposal(proposal_id=proposal.pk, author=author)
    client.force_login(reviewer)
    place = reverse("admin:proposals_packageproposal_change", args=[proposal.pk])
    page = client.get(place).content.decode()
    assert "What it needs of others" in page
    assert hashlib.sha512(alpha.archive).hexdigest() in page
    api = APIClient()
    api.force_authenticate(author)
    told = api.get(f"/api/v1/proposals/{proposal.pk}").json()
    assert told["dependencies"] == [
        {
            "name": "alpha",
            "version": "1.0.0",
            "place": "node_modules/alpha",
            "sha512": hashlib.sha512(alpha.archive).hexdigest(),
        }
    ]

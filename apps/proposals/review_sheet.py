"""What does a reviewer have to know before deciding? One page's worth, in the order of asking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User
from apps.audit.selectors import Told, history_of
from apps.core.errors import Refusal
from apps.domain.canonical import digest
from apps.domain.lockfiles import LockedPackage
from apps.domain.manifests import Manifest, parse_manifest
from apps.domain.packagetree import tree_digest
from apps.packages.errors import CannotPrepare
from apps.packages.models import PackageVersion
from apps.packages.selectors import active_version_of, read_tree
from apps.packages.services import check_admissible, pins_or_refuse
from apps.proposals.comparison import Comparison, compare_contracts
from apps.proposals.differences import ROW_BUDGET, DiffRow, FileDiff, compare_texts, compare_trees
from apps.proposals.models import PINS, PackageProposal, ProposalTest
from apps.proposals.selectors import ENDED_WITH_EVIDENCE, draft_tree, helpers_of, locked_packages

HISTORY = 50
ONE_FILE_BUDGET = 20_000

State = PackageProposal.State


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that has to hold before approving, and whether it does."""

    holds: bool
    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the tests prove: about these bytes, or why not."""

    current: bool
    word: str
    tone: str
    test: ProposalTest | None

    @property
    def pins(self) -> list[tuple[str, str, str]]:
        """What each program stood on at the test: its recorded name, a path, and the digest."""
        found: dict[str, dict[str, str]] = self.test.surface.get(PINS, {}) if self.test else {}
        return [
            (name, path, digest)
            for name, pins in sorted(found.items())
            for path, digest in sorted(pins.items())
        ]


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """A tool's schemas, line by line."""

    tool: str
    label: str
    rows: Sequence[DiffRow]


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """Everything that the review page shows."""

    proposal: PackageProposal
    active: PackageVersion | None
    comparison: Comparison
    schemas: dict[str, list[SchemaDiff]]
    files: Sequence[FileDiff]
    receipt: Receipt
    history: Sequence[Told]
    gates: Sequence[Gate]
    may_decide: bool
    helpers: Sequence[str]
    """The names of those who wrote parts of it, or may."""
    dependencies: Sequence[LockedPackage]

    @property
    def blocked_by(self) -> str:
        """Return the first thing that stands in the way of approving, if anything does."""
        return next((gate.text for gate in self.gates if not gate.holds), "")

    @property
    def added(self) -> int:
        """Lines added in all files."""
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        """Lines removed in all files."""
        return sum(file.removed for file in self.files)

    @property
    def changed_files(self) -> int:
        """How many files are not as in the active version."""
        return sum(file.status != "same" for file in self.files)

    @property
    def compared_with(self) -> str:
        """The ref that everything here is compared with, or nothing."""
        return self.active.ref if self.active else ""


def review_sheet(
    proposal: PackageProposal, *, reviewer: User, only_file: str | None = None
) -> ReviewSheet:
    """Prepare a proposal's review page for one reviewer."""
    manifest = parse_manifest(proposal.manifest)
    tree = draft_tree(proposal)
    active = active_version_of(proposal.name)
    # What replaced the proposal's own version later is nothing to compare it with.
    compared = active if active is None or active.ref != proposal.ref else None
    before = parse_manifest(compared.manifest) if compared else None
    old_tree = _tree_of(compared)
    if only_file is not None:
        shown, old_shown = _only(tree, only_file), _only(old_tree, only_file)
        files = compare_trees(old_shown, shown, budget=ONE_FILE_BUDGET)
    else:
        files = compare_trees(old_tree, tree, budget=ROW_BUDGET)
    comparison = compare_contracts(before, manifest)
    receipt = _receipt(proposal)
    gates = _gates(proposal, reviewer, receipt, manifest, tree)
    return ReviewSheet(
        proposal=proposal,
        active=compared,
        comparison=comparison,
        schemas=_schemas(comparison),
        files=files,
        receipt=receipt,
        history=history_of(proposal.key, limit=HISTORY),
        gates=gates,
        may_decide=proposal.state == State.SUBMITTED and not proposal.was_written_by(reviewer),
        helpers=[person.name for person in helpers_of(proposal)],
        dependencies=locked_packages(tree),
    )


def stored_file(proposal: PackageProposal, path: str) -> bytes | None:
    """Return the bytes of one file of a proposal."""
    return draft_tree(proposal).get(path)


def _tree_of(version: PackageVersion | None) -> dict[str, bytes]:
    if version is None:
        return {}
    return read_tree(version.files.order_by("path").values_list("path", "blob_id"))


def _only(tree: dict[str, bytes], path: str) -> dict[str, bytes]:
    return {path: tree[path]} if path in tree else {}


def _schemas(comparison: Comparison) -> dict[str, list[SchemaDiff]]:
    return {
        tool.name: [
            SchemaDiff(tool.name, label, compare_texts(before, after))
            for label, before, after in tool.schemas
            if before != after
        ]
        for tool in comparison.tools
    }


def _receipt(proposal: PackageProposal) -> Receipt:
    tests = list(proposal.tests.order_by("-created_at")[:20])
    pair = (proposal.artifact_hash, proposal.contract_digest)
    of_this = [test for test in tests if (test.artifact_hash, test.contract_digest) == pair]
    ended = [test for test in of_this if test.state in ENDED_WITH_EVIDENCE]
    newest = max(ended, key=lambda test: test.finished_at or test.created_at, default=None)
    if newest is not None and newest.state == ProposalTest.State.PASSED:
        return Receipt(True, "Current", "ok", newest)
    if newest is not None:
        return Receipt(False, "Failed", "bad", newest)
    if of_this:
        test = of_this[0]
        busy = test.state in (ProposalTest.State.QUEUED, ProposalTest.State.RUNNING)
        return Receipt(False, test.get_state_display(), "info" if busy else "bad", test)
    if tests:
        return Receipt(False, "Out of date", "bad", tests[0])
    return Receipt(False, "Never tested", "bad", None)


def _gates(
    proposal: PackageProposal,
    reviewer: User,
    receipt: Receipt,
    manifest: Manifest,
    tree: dict[str, bytes],
) -> list[Gate]:
    if proposal.state != State.SUBMITTED:
        return [Gate(False, _decided(proposal), "#history")]
    own = proposal.was_written_by(reviewer)
    intact = (tree_digest(tree), digest(proposal.manifest)) == (
        proposal.artifact_hash,
        proposal.contract_digest,
    )
    gates = [
        Gate(receipt.current, "Receipt current" if receipt.current else "No current receipt",
             "#receipt"),
        Gate(not own, "Not your own" if not own else "You wrote this: another reviewer decides"),
        _preparation(manifest, tree),
        Gate(intact, "Bytes intact" if intact else "Stored bytes were changed", "#files"),
    ]  # fmt: skip
    try:
        check_admissible(manifest=manifest, author=proposal.author)
    except Refusal as refusal:
        gates.append(Gate(False, refusal.message, "#contract"))
    else:
        gates.append(Gate(True, "Names free"))
    return gates


def _preparation(manifest: Manifest, tree: dict[str, bytes]) -> Gate:
    try:
        pins = pins_or_refuse(manifest, tree)
    except CannotPrepare as refusal:
        return Gate(False, refusal.message, "#contract")
    return Gate(True, "Programs pinned" if pins else "Nothing to pin", "#receipt" if pins else "")


def _decided(proposal: PackageProposal) -> str:
    word = proposal.get_state_display()
    return f"{word} by {proposal.reviewer.name}" if proposal.reviewer else word


def reach_of(proposal: Any) -> str:
    """Say in one word how a listed proposal compares with the active version."""
    before = parse_manifest(proposal.active_manifest) if proposal.active_manifest else None
    return compare_contracts(before, parse_manifest(proposal.manifest)).reach

"""What is the main job, step by step? Each step says what it saw, or stops the story."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from apps.web.demo import package
from apps.web.demo.client import Administrator, Member, NotAsItShould, Viewer, wait_until
from apps.web.demo.mending import mend_a_program

TEXT = "Kaizen decides, asks, executes and records. Nothing is taken on trust."
AGENT_CEILING = (
    "artifacts.read",
    "artifacts.write",
    "agents.read",
    "docs.read",
    "packages.call",
)


class Story:
    """One telling of the story, with names that no other telling used."""

    def __init__(
        self, *, url: str, passwords: dict[str, str], say: Callable[[str, str], None]
    ) -> None:
        self._url = url
        self._passwords = passwords
        self._say = say
        self._suffix = secrets.token_hex(3)
        self._traces: dict[str, set[str]] = {}
        self._asked_call = ""

    def tell(self) -> None:
        """Go through all steps; raise `NotAsItShould` at the first that is not right."""
        mara = Member(self._url, "mara", self._passwords["mara"])
        tomas = Member(self._url, "tomas", self._passwords["tomas"])
        ines = Administrator(self._url, "ines", self._passwords["ines"])
        self._say("Sign in", "two members with tokens, an administrator at the admin pages")
        tool = self._admit_package(mara, ines)
        room = self._furnish_room(mara, tool)
        eyes = [Viewer(self._url, member, room) for member in (mara, tomas)]
        try:
            self._work_in_room(mara, tomas, eyes, room, tool)
        finally:
            for viewer in eyes:
                viewer.close()
        mended = mend_a_program(url=self._url, member=mara, suffix=self._suffix, say=self._say)
        self._traces[f"run:{mended.run}"] = {"run.started", "run.finished"}
        self._traces |= {f"call:{call}": {"chat.tool.write"} for call in mended.calls}
        self._check_audit(ines)
        for member in (mara, tomas):
            member.sign_out()
        self._say("Sign out", "both tokens are revoked")

    def _admit_package(self, mara: Member, ines: Administrator) -> str:
        manifest = package.manifest(self._suffix)
        proposal = mara.post(
            "proposals", {"manifest": manifest, "files": package.files(self._suffix)}
        )
        self._say("Propose", f"mara drafted {proposal['ref']}")
        mara.post(f"proposals/{proposal['id']}/submit", expect=409)
        self._say("Refuse", "an untested draft cannot be submitted")
        test = mara.post(f"proposals/{proposal['id']}/test")
        done = wait_until(
            "The package's test",
            lambda: _settled_test(mara.get(f"proposals/{proposal['id']}/tests/{test['id']}")),
        )
        _expect(done["state"] == "passed", f"the tests {done['state']}: {done['explanation']}")
        self._say("Test", f"{done['ran']} tests passed in the sandbox, {done['runtime']}")
        mara.post(f"proposals/{proposal['id']}/submit", {"note": "Counts words."})
        review = f"/admin/proposals/packageproposal/{proposal['id']}/change/"
        _expect(manifest["name"] in ines.page(review), "the review page does not name the package")
        ines.submit(f"/admin/proposals/packageproposal/{proposal['id']}/approve/")
        admitted = mara.get(f"packages/{manifest['name']}")
        _expect(admitted["active"]["ref"] == proposal["ref"], "the package is not active")
        self._say("Approve", f"ines admitted {proposal['ref']} in the Django admin")
        self._traces[f"packageproposal:{proposal['id']}"] = {
            "proposal.created",
            "proposal.tested",
            "proposal.submitted",
            "proposal.approved",
        }
        name: str = admitted["active"]["tools"][0]["name"]
        return name

    def _furnish_room(self, mara: Member, tool: str) -> str:
        slug = f"clerk-{self._suffix}"
        mara.post(
            "agents",
            {
                "slug": slug,
                "name": f"Clerk {self._suffix}",
                "description": "Counts and writes down.",
                "persona": "You count words and keep what you find.",
                "ceiling": list(AGENT_CEILING),
            },
        )
        ref = f"tally-{self._suffix}@1.0.0"
        mara.post(f"agents/{slug}/grants", {"ref": ref, "tool": tool})
        room: str = mara.post("rooms", {"name": f"Demonstration {self._suffix}"})["id"]
        mara.post(f"rooms/{room}/participants", {"username": "tomas"})
        mara.post(f"rooms/{room}/seats", {"agent": slug})
        self._say("Furnish", f"a room with mara, tomas and an agent that may call {tool}")
        return room

    def _work_in_room(
        self, mara: Member, tomas: Member, eyes: list[Viewer], room: str, tool: str
    ) -> None:
        call = f"/call {tool} {json.dumps({'text': TEXT})}"
        body = f"# Word count\n\nOf the sentence: {TEXT}\n\n```json\n{{{{result}}}}\n```\n"
        write = {"title": f"Word count {self._suffix}", "kind": "markdown", "body": body}
        sent = mara.post(
            f"rooms/{room}/messages",
            {"text": f"{call}\n/call create_artifact {json.dumps(write)}"},
        )
        run = sent["run"]
        asked = _seen_by_all(eyes, "approval.requested", run=run)
        self._say("Ask", f"the run parked; both members see that {tool} waits for mara")
        tomas.post(f"approvals/{asked['approval']}/approve", expect=404)
        self._say("Refuse", "tomas cannot see or decide mara's approval")
        card = mara.get(f"approvals/{asked['approval']}")
        _expect(card["arguments"] == {"text": TEXT}, "the card does not show the exact arguments")
        mara.post(
            f"approvals/{asked['approval']}/approve",
            {"arguments_digest": card["arguments_digest"]},
        )
        counted = _seen_by_all(eyes, "call.settled", call=asked["call"])
        _expect(counted["outcome"] == "ok", f"the call ended {counted['outcome']}")
        self._say("Execute", f"{tool} ran confined in {counted['milliseconds']} ms")
        mara.post(
            f"approvals/{asked['approval']}/approve",
            {"arguments_digest": card["arguments_digest"]},
            expect=409,
        )
        self._say("Refuse", "the same approval cannot be used twice")
        saved = _seen_by_all(eyes, "artifact.saved")
        for viewer in eyes:
            viewer.event("run.finished", run=run, outcome="completed")
            pieces = viewer.count("stream.delta")
            _expect(pieces > 0, "a viewer saw no preview while the artifact was being written")
        self._say("Write", f"both watched {saved['title']!r} being written, {pieces} pieces")
        version = mara.get(f"artifacts/{saved['artifact']}/versions/{saved['version']}")
        _expect('"words": 11' in version["body"], "the artifact does not hold the tool's result")
        self._asked_call = asked["call"]
        self._traces |= {
            f"run:{run}": {"run.started", "run.finished"},
            f"approvalrequest:{asked['approval']}": {"approval.requested", "approval.approved"},
            f"call:{asked['call']}": {"chat.tool.write"},
            f"artifact:{saved['artifact']}": {"artifact.created"},
        }
        self._say("Keep", f"version {saved['version']} holds the result; {version['size']} bytes")

    def _check_audit(self, ines: Administrator) -> None:
        """Ask the audit trail for each thing that this story made, by its subject."""
        found = 0
        for subject, wanted in self._traces.items():
            rows = ines.audit_rows(subject=subject)
            missing = wanted - {row["action"] for row in rows}
            _expect(not missing, f"the audit trail of {subject} has no {', '.join(missing)}")
            found += len(wanted)
        spent = [row["detail"]["call"] for row in ines.audit_rows(action="receipt.spent")]
        _expect(spent.count(self._asked_call) == 1, "the receipt is not in the audit trail once")
        self._say("Record", f"the audit trail holds {found + 1} steps of this very story")


def _settled_test(test: dict[str, Any]) -> dict[str, Any] | None:
    return None if test["state"] in ("queued", "running") else test


def _seen_by_all(eyes: list[Viewer], kind: str, **data: Any) -> dict[str, Any]:
    """Wait until every viewer has seen an event, and return it."""
    facts: dict[str, Any] = {}
    for viewer in eyes:
        facts = viewer.event(kind, **data)
    return facts


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotAsItShould(otherwise[:1].upper() + otherwise[1:] + ".")

"""Who attacks whom: people, an agent, a package and runs, made by the product's own verbs."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from apps.accounts.models import User
from apps.accounts.tokens import make_token
from apps.agents.models import Agent
from apps.agents.services import create_agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.boundary.external import Opened, call_tool, finish_external_run, open_external_run
from apps.boundary.lost import end_lost_run
from apps.boundary.pipeline import execute_waiting
from apps.boundary.services import decide_approval
from apps.core.errors import Refusal
from apps.domain.manifests import parse_manifest
from apps.domain.tooling import CallState, Capability, Outcome
from apps.grants.services import grant_tool
from apps.packages.models import PackageVersion
from apps.packages.services import publish_package
from apps.rooms.models import Room
from apps.rooms.services import create_room, invite
from apps.runs.models import Call, Run
from apps.runs.services import add_seat
from benchmarks.effects import WRITE

EVERYTHING = [capability.value for capability in Capability]
USES_OF_A_RUN = 100


class Admitted(Exception):
    """Something that had to be refused was let through, whether or not it had an effect."""


class World:
    """What one attacking process lives in. Attempts put back what they change."""

    def __init__(self, name: str, *, web: str) -> None:
        self.name = name
        self.web = web
        self._numbers = itertools.count(1)
        self.mark = ""
        self.tried: Counter[str] = Counter()
        self.member = self._person("member")
        self.guest = self._person("guest")
        self.stranger = self._person("stranger")
        self.keeper = self._person("keeper", is_staff=True, is_superuser=True)
        self.tokens = {
            person.pk: make_token(user=person)[1]
            for person in (self.member, self.guest, self.stranger, self.keeper)
        }
        self.agent = create_agent(
            owner=self.member, slug=f"agent-{name}", name="Agent", ceiling=EVERYTHING
        )
        self.package = f"post-{name}"
        self.version = self.publish(1)
        self.tool = self.version.tools.get().name
        self.grant()
        self.room = self.new_room()
        self._opened: Opened | None = None
        self._uses = 0

    # --- making

    def publish(self, number: int) -> PackageVersion:
        """Admit a version of the package whose only tool writes, and says so."""
        ref = f"{self.package}@1.{number}.0"
        definition = {
            "id": f"{self.package}.send",
            "description": f"Send it, in its {number}. edition.",
            "version": f"1.{number}.0",
            "input": {
                "type": "object",
                "properties": {"mark": {"type": "string"}},
                "required": ["mark"],
                "additionalProperties": False,
            },
            "output": {"type": "object"},
            "mutating": True,
        }
        manifest = {
            "name": self.package,
            "version": f"1.{number}.0",
            "ref": ref,
            "format": "python",
            "tools": [
                {
                    "definition": definition,
                    "collaboration_class": "actor_bound_write",
                    "entry": "post:send",
                }
            ],
        }
        files = {
            "package.json": json.dumps({"name": self.package, "version": f"1.{number}.0"}).encode(),
            "post.py": b"def send(arguments):\n    return {}\n",
        }
        return publish_package(
            manifest=parse_manifest(manifest),
            files=files,
            author=self.member,
            admitted_by=self.keeper,
        )

    def grant(self) -> None:
        """Give the agent the package's tool, as its newest version has it."""
        grant_tool(
            agent_id=self.agent.pk, granter=self.member, ref=self.version.ref, tool=self.tool
        )

    def new_room(self) -> Room:
        """Open a room with the guest and the agent in it."""
        room = create_room(creator=self.member, name=f"Room {next(self._numbers)}")
        invite(room_id=room.pk, inviter=self.member, username=self.guest.username)
        add_seat(room_id=room.pk, member=self.member, agent_slug=self.agent.slug)
        return room

    def open(self, *, room: Room | None = None, member: User | None = None) -> Opened:
        """Open a run of another runtime."""
        return open_external_run(
            room_id=(room or self.room).pk,
            member=member or self.member,
            agent_slug=self.agent.slug,
        )

    @property
    def run(self) -> Run:
        """A live run that no attempt spoils; it is changed for a new one now and then."""
        return self.opened.run

    @property
    def opened(self) -> Opened:
        """The same, with its token."""
        self._uses += 1
        if self._uses % USES_OF_A_RUN == 0:
            self.renew_run()
        if self._opened is None:
            self._opened = self.open()
        return self._opened

    def renew_run(self) -> None:
        """Take a new run for what comes next: the catalog of the old one is out of date."""
        if self._opened is not None:
            self.end(self._opened.run)
            self._opened = None

    # --- doing

    def allow(self) -> str:
        """Call what comes next permitted: it has to happen, exactly once."""
        self.mark = f"allowed-{self.name}-{next(self._numbers)}"
        return self.mark

    def forbid(self) -> str:
        """Call what comes next forbidden: it may not happen."""
        self.mark = f"forbidden-{self.name}-{next(self._numbers)}"
        return self.mark

    def propose(self, run: Run | None = None, tool: str = WRITE, **arguments: Any) -> Call:
        """Propose one call under the present mark and return where it stands."""
        crossed = call_tool(
            run=run or self.run,
            name=tool,
            arguments_text=json.dumps({"mark": self.mark, **arguments}),
            proposal_id=f"{self.mark}:{next(self._numbers)}",
        )
        return crossed.call

    def question(self, call: Call) -> ApprovalRequest:
        """The question that was asked about a call."""
        return ApprovalRequest.objects.get(call=call)

    def approve(self, call: Call, by: User | None = None, digest: str | None = None) -> Receipt:
        """Say yes."""
        question = self.question(call)
        decide_approval(
            approval_id=question.pk,
            member=by or self.member,
            approve=True,
            arguments_digest=question.arguments_digest if digest is None else digest,
        )
        return Receipt.objects.get(call=call)

    def approved(self, run: Run | None = None, tool: str = WRITE) -> Call:
        """A call whose yes was given and not yet used."""
        call = self.propose(run, tool)
        self.approve(call)
        return call

    def execute(self, call: Call) -> Call:
        """Let a worker carry a call out, if it will."""
        execute_waiting(call_id=call.pk, executor=f"{self.name}:{next(self._numbers)}")
        return Call.objects.get(pk=call.pk)

    def end(self, run: Run) -> None:
        """Finish a run that is still open."""
        try:
            finish_external_run(run=run, text="")
        except Refusal:
            # An attempt has closed its room, say; what beat's sweep would find is ended here.
            end_lost_run(run_id=run.pk)

    # --- judging

    def must_refuse(self, act: Callable[[], Any], *codes: str) -> None:
        """Let an act fail with a refusal, by one of these codes where any are named."""
        try:
            act()
        except Refusal as refusal:
            if codes and refusal.code not in codes:
                raise Admitted(f"refused as {refusal.code}, expected {codes}") from refusal
            return
        raise Admitted("was not refused")

    def must_not_run(self, call: Call) -> None:
        """Let a worker try, and demand that the call is not carried out."""
        now = self.execute(call)
        if now.dispatched_at is not None or now.outcome == Outcome.OK.value:
            raise Admitted(f"the call is {now.state} {now.outcome}")

    def must_be_refused(self, call: Call) -> None:
        """Demand that a worker settles the call as not carried out."""
        self.must_not_run(call)
        now = Call.objects.get(pk=call.pk)
        if now.state != CallState.SETTLED.value:
            raise Admitted(f"the call is still {now.state}")

    def must_run(self, call: Call) -> None:
        """Demand that a worker carries out a call that may run: the harness is not blind."""
        now = self.execute(call)
        if now.outcome != Outcome.OK.value:
            raise Admitted(f"a permitted call ended as {now.outcome} {now.reason}")

    def _person(self, role: str, **fields: Any) -> User:
        return User.objects.create_user(
            username=f"{role}-{self.name}", password="a long enough secret", **fields
        )


Attempt = Callable[[World, Random], None]
ATTEMPTS: dict[str, list[Attempt]] = {}


def attempt(kind: str) -> Callable[[Attempt], Attempt]:
    """Register one way of attacking, under the kind that it belongs to."""

    def keep(function: Attempt) -> Attempt:
        setattr(function, "is_attempt", True)  # noqa: B010 - a mark on a function has no type
        ATTEMPTS.setdefault(kind, []).append(function)
        return function

    return keep


def agent_of(world: World) -> Agent:
    """The world's agent, as it is now."""
    return Agent.objects.get(pk=world.agent.pk)

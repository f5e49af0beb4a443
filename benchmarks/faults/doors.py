"""Attempts through the front door: real HTTP, and refusals that must not tell ids apart."""

from __future__ import annotations

import uuid
from random import Random
from typing import Any

import httpx

from apps.accounts.models import User
from apps.domain.canonical import digest
from apps.runs.models import Call
from benchmarks.effects import WRITE
from benchmarks.faults.world import Admitted, World, attempt

PATHS = (
    ("GET", "runs/{run}"),
    ("GET", "runs/{run}/calls"),
    ("POST", "runs/{run}/stop"),
    ("GET", "calls/{call}"),
    ("GET", "approvals/{approval}"),
    ("POST", "approvals/{approval}/approve"),
    ("POST", "approvals/{approval}/deny"),
    ("GET", "rooms/{room}"),
    ("POST", "rooms/{room}/runs"),
    ("POST", "rooms/{room}/messages"),
    ("GET", "callback/calls/{call}"),
)


class Distinguishable(Exception):
    """Two refusals that have to be the same differ."""


class Door:
    """The web server, as a program outside sees it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._client = httpx.Client(base_url=f"{world.web}/api/v1/", timeout=30, verify=False)  # noqa: S501 - loopback, plain HTTP

    def ask(
        self, method: str, path: str, *, token: str, body: Any = None, scheme: str = "Bearer"
    ) -> httpx.Response:
        """Send one request with a token."""
        return self._client.request(
            method, path, json=body, headers={"Authorization": f"{scheme} {token}"}
        )

    def must_refuse(self, answer: httpx.Response, *statuses: int) -> None:
        """Demand one of these statuses."""
        if answer.status_code not in statuses:
            raise Admitted(f"{answer.request.url.path} answered {answer.status_code}")


_doors: dict[str, Door] = {}


def door_of(world: World) -> Door:
    """The one client of a world, kept alive."""
    if world.name not in _doors:
        _doors[world.name] = Door(world)
    return _doors[world.name]


def told(answer: httpx.Response, path: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return what somebody outside can see of an answer, without what names this very request."""
    content = answer.content.replace(answer.headers["x-correlation-id"].encode(), b"-")
    content = content.replace(f"/api/v1/{path}".encode(), b"-")
    headers = [
        (name, "-" if name in ("x-correlation-id", "date", "content-length") else value)
        for name, value in answer.headers.items()
    ]
    return answer.status_code, sorted(headers), content


@attempt("foreign id")
def what_belongs_to_others_looks_like_nothing(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    ids = {
        "room": world.room.pk,
        "run": call.run_id,
        "call": call.pk,
        "approval": world.question(call).pk,
    }
    nothing = {name: uuid.UUID(int=chance.getrandbits(128), version=4) for name in ids}
    method, path = chance.choice(PATHS)
    person: User = world.stranger
    if path.startswith("approvals"):
        person = chance.choice([world.stranger, world.guest, world.keeper])
    body = _body(path, world)
    scheme, token = "Bearer", world.tokens[person.pk]
    opened = None
    if path.startswith("callback"):
        opened = world.open()
        scheme, token = "Run", opened.token
    door = door_of(world)
    seen = [
        told(door.ask(method, filled, token=token, body=body, scheme=scheme), filled)
        for filled in (path.format(**ids), path.format(**nothing))
    ]
    if opened is not None:
        world.end(opened.run)
    if seen[0] != seen[1]:
        raise Distinguishable(f"{method} {path}: {seen[0]} and {seen[1]}")
    if seen[0][0] != 404:
        raise Admitted(f"{method} {path} answered {seen[0][0]}")
    world.must_not_run(call)


@attempt("foreign id")
def somebody_elses_yes_through_the_door(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    person = chance.choice([world.guest, world.stranger, world.keeper])
    answer = door_of(world).ask(
        "POST",
        f"approvals/{world.question(call).pk}/approve",
        token=world.tokens[person.pk],
        body={"arguments_digest": call.arguments_digest},
    )
    door_of(world).must_refuse(answer, 404)
    world.must_not_run(call)


@attempt("changed arguments")
def other_arguments_through_the_door(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    answer = door_of(world).ask(
        "POST",
        f"approvals/{world.question(call).pk}/approve",
        token=world.tokens[world.member.pk],
        body={"arguments_digest": digest({"mark": f"{world.mark} {chance.random()}"})},
    )
    door_of(world).must_refuse(answer, 409)
    world.must_not_run(call)


@attempt("changed arguments")
def a_proposal_is_sent_again_with_other_arguments(world: World, chance: Random) -> None:
    world.forbid()
    door, token = door_of(world), world.opened.token
    first = _proposal(world, f"{world.mark}:door")
    sent = door.ask("POST", "callback/calls", token=token, scheme="Run", body=first)
    if sent.status_code != 202:
        raise Admitted(f"a call that asks answered {sent.status_code}")
    changed = {**first, "arguments": {"mark": f"{world.mark} {chance.getrandbits(30)}"}}
    again = door.ask("POST", "callback/calls", token=token, scheme="Run", body=changed)
    door.must_refuse(again, 409)


@attempt("ended run")
def a_dead_token_at_the_door(world: World, chance: Random) -> None:
    opened = world.open()
    world.forbid()
    door = door_of(world)
    finished = door.ask(
        "POST", "callback/finish", token=opened.token, scheme="Run", body={"text": ""}
    )
    if finished.status_code != 200:
        raise Admitted(f"finish answered {finished.status_code}")
    body = _proposal(world, world.mark)
    dead = door.ask("POST", "callback/calls", token=opened.token, scheme="Run", body=body)
    made_up = f"{chance.getrandbits(256):x}"
    unknown = door.ask("POST", "callback/calls", token=made_up, scheme="Run", body=body)
    door.must_refuse(dead, 401)
    if told(dead, "callback/calls") != told(unknown, "callback/calls"):
        raise Distinguishable("an ended run's token and one that never was")


@attempt("foreign token")
def a_members_token_opens_no_run(world: World, chance: Random) -> None:
    world.forbid()
    door, body = door_of(world), _proposal(world, world.mark)
    member = world.tokens[world.member.pk]
    for scheme, token in (("Run", member), ("Bearer", member), ("Bearer", world.opened.token)):
        answer = door.ask("POST", "callback/calls", token=token, scheme=scheme, body=body)
        door.must_refuse(answer, 401, 403)


@attempt("foreign token")
def a_runs_token_opens_nothing_of_its_member(world: World, chance: Random) -> None:
    world.forbid()
    call = world.propose()
    path = f"approvals/{world.question(call).pk}/approve"
    body = {"arguments_digest": call.arguments_digest}
    for scheme in ("Run", "Bearer"):
        answer = door_of(world).ask(
            "POST", path, token=world.opened.token, scheme=scheme, body=body
        )
        door_of(world).must_refuse(answer, 401, 403)
    world.must_not_run(call)


@attempt("forced words")
def authority_is_not_taken_from_a_body(world: World, chance: Random) -> None:
    world.forbid()
    extra: dict[str, Any] = chance.choice(
        [{"member": world.keeper.pk}, {"fence": 9}, {"approved": True}, {"needs_receipt": False}]
    )
    body = {**_proposal(world, world.mark), **extra}
    answer = door_of(world).ask(
        "POST", "callback/calls", token=world.opened.token, scheme="Run", body=body
    )
    door_of(world).must_refuse(answer, 400, 422)


@attempt("allowed")
def what_may_happen_does(world: World, chance: Random) -> None:
    world.allow()
    door = door_of(world)
    opened = world.opened
    sent = door.ask(
        "POST",
        "callback/calls",
        token=opened.token,
        scheme="Run",
        body=_proposal(world, f"{world.mark}:door"),
    ).json()
    call = Call.objects.get(pk=sent["call"])
    yes = door.ask(
        "POST",
        f"approvals/{world.question(call).pk}/approve",
        token=world.tokens[world.member.pk],
        body={"arguments_digest": call.arguments_digest},
    )
    if yes.status_code != 200:
        raise Admitted(f"a rightful yes answered {yes.status_code}")
    world.must_run(call)


def _proposal(world: World, proposal_id: str) -> dict[str, Any]:
    return {"name": WRITE, "arguments": {"mark": world.mark}, "proposal_id": proposal_id}


def _body(path: str, world: World) -> Any:
    if path.endswith("/approve"):
        return {"arguments_digest": digest({})}
    if path.endswith("/deny"):
        return {"reason": "No."}
    if path.endswith("/messages"):
        return {"text": "Hello"}
    if path.endswith("/runs"):
        return {"agent": world.agent.slug}
    return {} if path.endswith("/stop") else None

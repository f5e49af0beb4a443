"""Who may speak with a run's token? Whoever holds it, or, where it is bound to a key, that key.

A token is bound when the run is opened, or when a new one takes its place, by a proof (RFC 9449)
that goes with that request; the run keeps the key's thumbprint. From then on the token alone opens
nothing, and nothing makes it a plain one again.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass

from django.conf import settings

from apps.core.errors import Refusal
from apps.core.once import first_time
from apps.domain import proofs

PLAIN = "Run"
BOUND = "DPoP"
_ALGORITHMS = " ".join(proofs.ALGORITHMS)


class Unproven(Refusal):
    """The request does not show that its sender may speak for the run."""

    status = 401
    error = "invalid_token"

    @property
    def challenge(self) -> str:
        """What stands in WWW-Authenticate: how to show it, and what was wrong."""
        bound = f'{BOUND} algs="{_ALGORITHMS}", error="{self.error}"'
        if settings.KAIZEN_BOUND_RUN_TOKENS or self.error != "invalid_token":
            return bound
        return f'{PLAIN} error="{self.error}", {bound}'


class BadToken(Unproven):
    """The run token is unknown, has expired, or is not one for this sender."""

    code = "bad_run_token"


class BadProof(Unproven):
    """The proof that came with a token, or that should have come, is not good for this request."""

    code = "invalid_dpop_proof"
    error = "invalid_dpop_proof"


class BadKey(Refusal):
    """A token cannot be bound to the key that was given, or not without one."""

    code = "invalid_dpop_proof"
    status = 400


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends a request of a run: the token, and what a proof that came along has proven."""

    token: str
    proof: proofs.Proof | None = None


def read_sender(*, authorization: str, proof: str, method: str, address: str) -> Sender:
    """Read who sends a request, by its headers; whether the run takes them is for `admit`."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if token and scheme.lower() == PLAIN.lower():
        return Sender(token)
    if not token or scheme.lower() != BOUND.lower():
        raise BadToken(f"Send the run's token as `Authorization: {_usual_scheme()} TOKEN`.")
    if not proof:
        raise BadProof("A token that is bound to a key comes with a proof, in the header DPoP.")
    try:
        read = proofs.read_proof(
            proof, method=method, address=address, token=token, now=time.time()
        )
    except proofs.BadProof as problem:
        raise BadProof(str(problem)) from None
    return Sender(token, read)


def admit(sender: Sender, key: str) -> None:
    """Refuse a sender whom the run of the token, bound to this key or to none, does not take."""
    if key:
        if sender.proof is None:
            raise BadToken("This token is bound to a key. Send it as `Authorization: DPoP TOKEN`.")
        if not hmac.compare_digest(sender.proof.key, key):
            raise BadToken("This token is bound to another key than the proof's.")
        _count_once(sender.proof)
    elif sender.proof is not None:
        raise BadToken("This token is bound to no key. Send it as `Authorization: Run TOKEN`.")
    elif settings.KAIZEN_BOUND_RUN_TOKENS:
        raise BadToken("Only tokens that are bound to a key are taken here. Renew it with a proof.")


def key_offered(*, proof: str, method: str, address: str) -> str:
    """Return the thumbprint of the key to which a new token is to be bound, if one is offered."""
    if not proof:
        return ""
    try:
        read = proofs.read_proof(proof, method=method, address=address, token=None, now=time.time())
        _count_once(read)
    except (proofs.BadProof, BadProof) as problem:
        raise BadKey(str(problem), field=BOUND) from None
    return read.key


def demand_key(key: str) -> None:
    """Refuse to make a token that is bound to no key, where the deployment wants none."""
    if settings.KAIZEN_BOUND_RUN_TOKENS and not key:
        raise BadKey(
            "Every run token is bound to a key here. Send a proof in the header DPoP.", field=BOUND
        )


def _count_once(proof: proofs.Proof) -> None:
    if not first_time("proof", f"{proof.key}.{proof.ident}", seconds=proofs.COUNTS_FOR):
        raise BadProof("This proof has been used. Make another for each request.")


def _usual_scheme() -> str:
    return BOUND if settings.KAIZEN_BOUND_RUN_TOKENS else PLAIN

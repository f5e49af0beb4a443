"""How do a package's dependencies come to be there before its code is loaded?

Once for each lock: the archives are fetched by a confined child that reaches the registry alone,
taken only where their bytes have the hash that the lock names, unpacked entry by entry, and
published whole. Nothing of them is ever run while that happens, and no package manager is: what a
script or a settings file of theirs says is never asked.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import certifi
from django.conf import settings

from apps.domain.egress import BadNetwork, allowlist
from apps.domain.lockfiles import Dependencies, LockedPackage
from apps.domain.tarballs import MAX_ARCHIVE_BYTES, MIB, BadTarball, read_tarball
from apps.sandbox.client import run
from apps.sandbox.errors import DependenciesMissing, SandboxUnavailable
from apps.sandbox.replies import BadReply, read_frame
from apps.sandbox.spec import Limits, Output, Reason, SandboxSpec
from apps.sandbox.store import Draft, StillInstalling, Store, StoreFull, the_store
from apps.sandbox.trust import machine_authorities

_HARNESS: Final = Path(__file__).with_name("harness") / "fetch_archives.py"
_LOT: Final = 48
"""How many archives one child fetches; its outputs are bounded in number and size."""
_LOT_BYTES: Final = MAX_ARCHIVE_BYTES
_MACHINES: Final = {"x86_64": "x64", "aarch64": "arm64"}

Cancelled = Callable[[], bool]


def install(
    needed: Dependencies,
    *,
    deadline_s: float,
    correlation: str = "",
    cancelled: Cancelled | None = None,
    path: Path | None = None,
    store: Store | None = None,
) -> str:
    """Return the content address of installed dependencies, installing them if they are not there.

    Raises DependenciesMissing, with one sentence that may be shown, where they cannot be had.
    """
    digest = needed.digest
    if not digest:
        return ""
    store = store or the_store()
    if store.has(digest):
        return digest
    if digest in store.pinned:
        raise DependenciesMissing(
            "This package's dependencies belong to the deployment, and their tree is not there."
            " Nothing is installed in its place."
        )
    if settings.PKG_RUNNER_OFFLINE:
        raise DependenciesMissing(
            "This package's dependencies are not installed, and installing is switched off"
            " (PKG_RUNNER_OFFLINE)."
        )
    if not settings.KAIZEN_NPM_REGISTRY:
        raise DependenciesMissing(
            "This package's dependencies are not installed, and no registry is configured"
            " (KAIZEN_NPM_REGISTRY)."
        )
    until = time.monotonic() + deadline_s
    try:
        with store.alone(digest, until=until):
            if not store.has(digest):
                _Installation(store, until, correlation, cancelled, path).run(needed)
    except StillInstalling:
        raise DependenciesMissing(
            "Another worker still installs these dependencies. Try again in a moment."
        ) from None
    except StoreFull as full:
        raise DependenciesMissing(str(full)) from None
    except OSError as problem:
        raise DependenciesMissing(
            f"The dependencies could not be stored: {problem.strerror or 'the disk failed'}."
        ) from problem
    return digest


def fits_here(package: LockedPackage) -> bool:
    """Tell whether a package says that it works on this machine."""
    ours = (
        ("linux", package.os),
        (_MACHINES.get(platform.machine(), platform.machine()), package.cpu),
        (platform.libc_ver()[0] or "musl", package.libc),
    )
    return all(_allows(word, wanted) for word, wanted in ours)


def _allows(word: str, wanted: tuple[str, ...]) -> bool:
    refused = {one[1:] for one in wanted if one.startswith("!")}
    allowed = {one for one in wanted if not one.startswith("!")}
    return word not in refused and (not allowed or word in allowed)


def _authorities() -> Path:
    """Return whom to trust about the registry's name: whom the machine trusts, if it says so."""
    return machine_authorities() or Path(certifi.where())


class _Installation:
    """One tree on its way into the store."""

    def __init__(
        self,
        store: Store,
        until: float,
        correlation: str,
        cancelled: Cancelled | None,
        path: Path | None,
    ) -> None:
        self._store = store
        self._until = until
        self._correlation = correlation
        self._cancelled = cancelled
        self._path = path

    def run(self, needed: Dependencies) -> None:
        wanted: list[LockedPackage] = []
        for one in needed.packages:
            if fits_here(one):
                wanted.append(one)
            elif not one.optional:
                raise DependenciesMissing(
                    f"{one.name}@{one.version} does not work on this kind of machine."
                )
        with self._store.draft(needed.digest) as draft:
            # The same archive may be wanted at several places; it is fetched once.
            places: dict[str, list[LockedPackage]] = {}
            for one in wanted:
                places.setdefault(one.sha512, []).append(one)
            waiting = [group[0] for group in places.values()]
            while waiting:
                taken = self._lot(waiting[:_LOT], places, draft)
                waiting = [one for one in waiting if one.sha512 not in taken]

    def _lot(
        self, lot: Sequence[LockedPackage], places: dict[str, list[LockedPackage]], draft: Draft
    ) -> set[str]:
        """Fetch some archives and unpack those that came; return their hashes."""
        names = {f"{number}.tgz": one for number, one in enumerate(lot)}
        taken: set[str] = set()
        for output in self._fetch(names):
            one = names[output.name]
            if output.refused:
                continue
            if hashlib.sha512(output.content).hexdigest() != one.sha512:
                raise DependenciesMissing(
                    f"What the registry has as {one.name}@{one.version} are not the bytes that the"
                    " lock file names."
                )
            try:
                files = read_tarball(output.content)
            except BadTarball as problem:
                raise DependenciesMissing(f"{one.name}@{one.version}: {problem}") from None
            for place in places[one.sha512]:
                draft.add(place.place, files)
            taken.add(one.sha512)
        if not taken:
            raise DependenciesMissing("The registry gave none of the archives.")
        return taken

    def _fetch(self, names: dict[str, LockedPackage]) -> tuple[Output, ...]:
        left = self._until - time.monotonic()
        if left <= 0:
            raise DependenciesMissing("The dependencies were not installed in time.")
        asked = {
            "registry": settings.KAIZEN_NPM_REGISTRY,
            "archives": [[name, one.address] for name, one in names.items()],
            "most": MAX_ARCHIVE_BYTES,
            "budget": _LOT_BYTES,
        }
        try:
            result = run(self._spec(asked, tuple(names), left), deadline_s=left,
                         cancelled=self._cancelled, path=self._path)  # fmt: skip
        except SandboxUnavailable as away:
            raise DependenciesMissing(f"The dependencies were not installed: {away}") from away
        if result.reason is not Reason.OK:
            raise DependenciesMissing(
                f"The dependencies were not installed: fetching them ended with {result.reason}."
            )
        try:
            failed = read_frame(result.result).get("failed")
        except BadReply as problem:
            raise DependenciesMissing(f"Fetching the dependencies failed: {problem}") from None
        if isinstance(failed, list) and failed:
            name, said = failed[0] if isinstance(failed[0], list) else ("", "")
            one = names.get(str(name))
            which = f"{one.name}@{one.version}" if one else "An archive"
            raise DependenciesMissing(f"{which} could not be fetched: {str(said)[:200]}.")
        return result.outputs

    def _spec(self, asked: object, outputs: tuple[str, ...], left: float) -> SandboxSpec:
        registry = urlsplit(settings.KAIZEN_NPM_REGISTRY)
        port = registry.port or (443 if registry.scheme == "https" else 80)
        try:
            network = allowlist([f"{registry.hostname}:{port}"])
        except BadNetwork as problem:
            raise DependenciesMissing(f"KAIZEN_NPM_REGISTRY: {problem}") from None
        return SandboxSpec(
            argv=("python", "-I", "-S", "-B", "/kaizen/fetch_archives.py"),
            harness=(
                ("fetch_archives.py", _HARNESS.read_bytes()),
                ("certificates.pem", _authorities().read_bytes()),
            ),
            stdin=json.dumps(asked).encode(),
            # The last archive of a lot may come on top of the others before it is put back.
            limits=Limits(
                wall_ms=max(1, int(left * 1000)), workspace_mb=2 * (_LOT_BYTES // MIB) * 4,
                cpu_ms=60_000, open_files=256,
            ),
            outputs=outputs,
            network=network,
            correlation_id=self._correlation,
        )  # fmt: skip

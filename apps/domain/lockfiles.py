"""Which other packages does a package need, down to the last byte?

A tree may name packages of the npm registry only by exact version, and has to bring a
`package-lock.json` that gives each of them, and all that they need in turn, with the hash of its
archive. The hash is what counts: wherever an archive is fetched from, no other bytes are taken.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from apps.domain.canonical import BadJson, digest, strict_loads
from apps.domain.problems import Problem, Problems, Rejected
from apps.domain.words import shown

PACKAGE_JSON: Final = "package.json"
LOCK: Final = "package-lock.json"
MAX_PACKAGES: Final = 400
MAX_BYTES: Final = 128 * 1024

# What npm would run when a package is installed, packed or published.
LIFECYCLE: Final = frozenset(
    {"preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare",
     "prepublishOnly", "prepack", "postpack", "publish", "postpublish", "dependencies",
     "preuninstall", "uninstall", "postuninstall"}
)  # fmt: skip
PINNED_FIELDS: Final = ("dependencies", "devDependencies", "optionalDependencies")
_REFUSED_FIELDS: Final = ("bundleDependencies", "bundledDependencies", "workspaces", "overrides")

_NAME: Final = r"(?:@[A-Za-z0-9~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*"
_NAME_ONLY = re.compile(rf"{_NAME}\Z")
_EXACT = re.compile(
    r"(?:0|[1-9][0-9]{0,9})\.(?:0|[1-9][0-9]{0,9})\.(?:0|[1-9][0-9]{0,9})"
    r"(?:-[0-9A-Za-z.-]{1,60})?(?:\+[0-9A-Za-z.-]{1,60})?\Z"
)
_PLACE = re.compile(rf"node_modules/{_NAME}(?:/node_modules/{_NAME}){{0,7}}\Z")
_PLATFORM_WORD = re.compile(r"!?[a-z0-9_]{1,20}\Z")


class BadLock(Rejected):
    """A lock file that does not say which bytes a package needs."""


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """One package of a lock file: where it lies, what it is, and the hash of its archive."""

    place: str
    name: str
    version: str
    sha512: str
    optional: bool = False
    os: tuple[str, ...] = ()
    cpu: tuple[str, ...] = ()
    libc: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Return where a registry keeps the archive, below its own address."""
        return f"/{quote(self.name, safe='@/')}/-/{_archive(self.name, self.version)}"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Everything that a package needs, in the order of its places."""

    packages: tuple[LockedPackage, ...] = ()

    @property
    def digest(self) -> str:
        """The content address of the installed tree, as bare hex; empty where nothing is needed."""
        if not self.packages:
            return ""
        rows = [
            [one.place, one.name, one.version, one.sha512, one.optional,
             list(one.os), list(one.cpu), list(one.libc)]
            for one in self.packages
        ]  # fmt: skip
        return digest(rows).removeprefix("sha256:")


NOTHING: Final = Dependencies()


def dependency_problems(files: Mapping[str, bytes]) -> list[Problem]:
    """Return what is wrong with a tree's package.json and lock file, as far as they name others."""
    problems = Problems()
    package = _object(files, PACKAGE_JSON, problems)
    if package is not None:
        _check_scripts(package, problems)
        _check_pins(package, problems)
    if not problems and package is not None:
        _read_lock(files, package, problems)
    return problems.found()


def dependencies_of(files: Mapping[str, bytes]) -> Dependencies:
    """Return what a tree's lock file names, or raise BadLock where it does not hold."""
    if LOCK not in files:
        return NOTHING
    problems = Problems()
    package = _object(files, PACKAGE_JSON, problems)
    found = NOTHING if package is None else _read_lock(files, package, problems)
    if problems:
        raise BadLock(problems.found())
    return found


def is_exact(version: object) -> bool:
    """Tell whether a version is one version and no range, tag or address."""
    return isinstance(version, str) and bool(_EXACT.match(version))


def _check_scripts(package: dict[str, Any], problems: Problems) -> None:
    scripts = package.get("scripts", {})
    if not isinstance(scripts, dict):
        problems.add(f"{PACKAGE_JSON}.scripts", "type", "It is not an object.")
        return
    for name in sorted(scripts.keys() & LIFECYCLE):
        problems.add(
            f"{PACKAGE_JSON}.scripts.{name}", "lifecycle_script",
            "Nothing may run when a package is installed or published.",
        )  # fmt: skip


def _check_pins(package: dict[str, Any], problems: Problems) -> None:
    for field in _REFUSED_FIELDS:
        if package.get(field) not in (None, False, [], {}):
            problems.add(f"{PACKAGE_JSON}.{field}", "unsupported", "It is not supported.")
    for field in PINNED_FIELDS:
        wanted = package.get(field, {})
        if not isinstance(wanted, dict):
            problems.add(f"{PACKAGE_JSON}.{field}", "type", "It is not an object.")
            continue
        for name, version in wanted.items():
            where = f"{PACKAGE_JSON}.{field}.{name}"
            if not _NAME_ONLY.match(name):
                problems.add(where, "name", "It is no name of a package.")
            elif not is_exact(version):
                problems.add(
                    where, "exact_pin",
                    "It is not pinned to one exact version: ranges, tags, aliases, addresses and"
                    " links are refused.",
                )  # fmt: skip


def _read_lock(
    files: Mapping[str, bytes], package: dict[str, Any], problems: Problems
) -> Dependencies:
    wanted = {field: package.get(field) or {} for field in PINNED_FIELDS}
    names = {name for pins in wanted.values() for name in pins}
    if LOCK not in files:
        if names:
            problems.add(LOCK, "required", "package.json names packages, and no lock file does.")
        return NOTHING
    lock = _object(files, LOCK, problems)
    if lock is None:
        return NOTHING
    if lock.get("lockfileVersion") not in (2, 3):
        problems.add(f"{LOCK}.lockfileVersion", "version", "It is not 2 or 3.")
        return NOTHING
    entries = lock.get("packages")
    if not isinstance(entries, dict) or len(entries) > MAX_PACKAGES + 1:
        problems.add(
            f"{LOCK}.packages", "type", f"It is not an object of at most {MAX_PACKAGES} packages."
        )
        return NOTHING
    _check_root(entries.get(""), wanted, problems)
    found = [
        one
        for place in sorted(entries)
        if place and (one := _entry(place, entries[place], problems)) is not None
    ]
    _check_places(names, found, wanted, problems)
    return Dependencies(tuple(found))


def _check_root(root: Any, wanted: dict[str, dict[str, str]], problems: Problems) -> None:
    given = root if isinstance(root, dict) else {}
    for field, pins in wanted.items():
        # npm lists an optional dependency among the ordinary ones of some lock files as well.
        locked = given.get(field) or {}
        if not isinstance(locked, dict) or dict(locked) != dict(pins):
            problems.add(
                f"{LOCK}.packages[].{field}", "disagrees",
                f"The lock file was made for other {field} than package.json has.",
            )  # fmt: skip


def _check_places(
    names: set[str],
    found: list[LockedPackage],
    wanted: dict[str, dict[str, str]],
    problems: Problems,
) -> None:
    at = {one.place: one for one in found}
    for name in sorted(names):
        one = at.get(f"node_modules/{name}")
        pins = {pins[name] for pins in wanted.values() if name in pins}
        if one is None:
            problems.add(
                f"{LOCK}.packages.node_modules/{name}", "missing", "The lock file does not have it."
            )
        elif pins != {one.version} or one.name != name:
            problems.add(
                f"{LOCK}.packages.{one.place}", "disagrees",
                "It is another version than package.json names.",
            )  # fmt: skip
    for one in found:
        parent = one.place.rpartition("/node_modules/")[0]
        if parent and parent not in at:
            problems.add(f"{LOCK}.packages.{one.place}", "place", "It lies below no package.")


def _entry(place: str, entry: Any, problems: Problems) -> LockedPackage | None:
    where = f"{LOCK}.packages.{place}"
    if not _PLACE.match(place):
        problems.add(where, "place", "It is no place below node_modules.")
        return None
    if not isinstance(entry, dict):
        problems.add(where, "type", "It is not an object.")
        return None
    if entry.get("link") or entry.get("inBundle"):
        problems.add(where, "link", "Links and bundled packages are refused.")
        return None
    name = entry.get("name", place.rpartition("node_modules/")[2])
    version = entry.get("version")
    if not isinstance(name, str) or not _NAME_ONLY.match(name):
        problems.add(where, "name", "It has no name of a package.")
        return None
    if not isinstance(version, str) or not is_exact(version):
        problems.add(where, "exact_pin", "It has no exact version.")
        return None
    if not _from_registry(entry.get("resolved"), name, version):
        problems.add(
            f"{where}.resolved", "registry",
            "It is not the https address of this version's archive in a registry.",
        )  # fmt: skip
        return None
    sha512 = _sha512(entry.get("integrity"))
    if sha512 is None:
        problems.add(f"{where}.integrity", "integrity", "It has no sha512 hash of the archive.")
        return None
    words: dict[str, tuple[str, ...]] = {}
    for field in ("os", "cpu", "libc"):
        given = entry.get(field, [])
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list) or not all(
            isinstance(one, str) and _PLATFORM_WORD.match(one) for one in given
        ):
            problems.add(f"{where}.{field}", "type", "It is not a list of words.")
            return None
        words[field] = tuple(given)
    # What is only wanted where it fits may be left out where it does not.
    optional = bool(entry.get("optional") or entry.get("devOptional"))
    return LockedPackage(place, name, version, sha512, optional, **words)


def _from_registry(resolved: Any, name: str, version: str) -> bool:
    if not isinstance(resolved, str) or len(resolved) > 500:
        return False
    try:
        parts = urlsplit(resolved)
        host, user = parts.hostname, parts.username or parts.password
    except ValueError:
        return False
    end = f"/{name}/-/{_archive(name, version)}"
    return bool(
        parts.scheme == "https" and host and not user and not parts.query and not parts.fragment
        and parts.path.replace("%2f", "/").replace("%2F", "/").endswith(end)
    )  # fmt: skip


def _archive(name: str, version: str) -> str:
    return f"{name.rpartition('/')[2]}-{version}.tgz"


def _sha512(integrity: Any) -> str | None:
    """Return the hex of the strongest hash, the only one that is trusted."""
    if not isinstance(integrity, str):
        return None
    for word in integrity.split():
        kind, _, value = word.partition("-")
        if kind != "sha512":
            continue
        try:
            raw = base64.b64decode(value.partition("?")[0], validate=True)
        except (binascii.Error, ValueError):
            return None
        return raw.hex() if len(raw) == 64 else None
    return None


def _object(files: Mapping[str, bytes], path: str, problems: Problems) -> dict[str, Any] | None:
    raw = files.get(path)
    if raw is None:
        problems.add(path, "required", "The file is missing.")
        return None
    try:
        found = strict_loads(raw, max_bytes=MAX_BYTES)
    except BadJson as refusal:
        problems.add(path, "json", refusal.message)
        return None
    if not isinstance(found, dict):
        problems.add(path, "json", f"It is not a JSON object, but {shown(type(found).__name__)}.")
        return None
    return found

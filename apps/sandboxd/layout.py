"""Say what a sandbox looks like from inside: its namespaces, its files and its environment.

The root is empty at first; everything in it is put there by a line of this file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from apps.sandboxd.egress import PROXY
from apps.sandboxd.jobs import SandboxSpec
from apps.sandboxd.limits import MIB, Limits
from apps.sandboxd.runtimes import mounts, search_path, variables

UID: Final = 1000
WORKSPACE: Final = "/workspace"
PACKAGE: Final = "/package"
HARNESS: Final = "/kaizen"
SHARED: Final = "/shared"
RUNTIME: Final = "/runtime/python"
# Every package inside is found from here, since a program looks in each folder above its own.
DEPENDENCIES_FOLDER: Final = "node_modules"
PATH: Final = "/runtime/bin:/usr/local/bin:/usr/bin:/bin"

PRLIMIT: Final = "/usr/bin/prlimit"
# The gate tells that all mounts stand, waits for a newline, and becomes the program. Where the
# supervisor died before it wrote one, there is nobody to watch a program, and none is started.
GATE: Final = ("/bin/sh", "-c", 'printf .; read -r _ || exit 125; exec "$@"', "sh")

_FILES: Final = {
    "/etc/passwd": b"sandbox:x:1000:1000::/workspace:/bin/sh\n",
    "/etc/group": b"sandbox:x:1000:\n",
    "/etc/hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}
# What a program needs to know where its network begins, and whom it may trust there.
_NAMED: Final = {
    "/etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/resolv.conf": b"nameserver 127.0.0.1\noptions timeout:2 attempts:1\n",
}
_TRUSTED: Final = ("/etc/ssl/certs", "/etc/pki", "/etc/ca-certificates")
_PROXIED: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
    # Node heeds the proxy only when it is told to.
    "NODE_USE_ENV_PROXY": "1",
}
_HOST_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives")
# What tells about the kernel or the machine and is of no use to a program.
_COVERED: Final = (
    "keys", "key-users", "kallsyms", "kcore", "kmsg", "timer_list", "slabinfo", "vmallocinfo",
    "modules", "cmdline", "config.gz", "sysrq-trigger", "kpagecount", "kpageflags", "kpagecgroup",
    "iomem", "ioports", "sched_debug", "allocinfo",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Runtime:
    """The Python of the sandbox: where it lies on the host and what it is called inside."""

    executable: Path

    @property
    def source(self) -> Path | None:
        """Return the host folder to bind, or None when the /usr bind already holds it."""
        return None if _below(self.executable, Path("/usr")) else self.executable.parents[1]

    @property
    def inside(self) -> str:
        """Return the path of the interpreter inside the sandbox."""
        if self.source is None:
            return str(self.executable)
        return str(PurePosixPath(RUNTIME) / "bin" / self.executable.name)


@dataclass(slots=True)
class Descriptors:
    """Memory files handed to bubblewrap; all are closed here once it has its own copies."""

    numbers: list[int] = field(default_factory=list)

    def memory(self, content: bytes) -> str:
        """Put bytes into an anonymous file and return its descriptor as an argument."""
        number = os.memfd_create("kaizen", os.MFD_CLOEXEC)
        self.numbers.append(number)
        view = memoryview(content)
        while view:
            view = view[os.write(number, view) :]
        os.lseek(number, 0, os.SEEK_SET)
        return str(number)

    def close(self) -> None:
        """Close every file."""
        for number in self.numbers:
            with suppress(OSError):
                os.close(number)
        self.numbers.clear()


@dataclass(frozen=True, slots=True)
class Layout:
    """What of the host a sandbox may see, the same for every call."""

    runtime: Runtime | None
    hidden: tuple[Path, ...] = ()
    stores: tuple[Path, ...] = ()
    runtimes: Mapping[str, Path] = field(default_factory=dict)

    def dependencies(self, digest: str) -> Path | None:
        """Return the folder of an installed tree, or None where no store has it."""
        places = (store / digest / DEPENDENCIES_FOLDER for store in self.stores)
        return next((place for place in places if place.is_dir()), None)


def _below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def arguments(layout: Layout, spec: SandboxSpec, limits: Limits, memory: Descriptors) -> list[str]:
    """Return bubblewrap's options for one call; mounts first, read-only remounts last."""
    return [
        *_namespaces(),
        *_environment(spec),
        *_system(layout),
        *_etc(spec, memory),
        *_kernel(limits),
        *_sized(WORKSPACE, limits.workspace_mb),
        *_sized("/tmp", limits.tmp_mb),  # noqa: S108 - a file system of the sandbox's own
        *mounts(spec.runtimes, layout.runtimes),
        # A package's programs are started by their path, so its files may be executed.
        *_tree(PACKAGE, spec.files, memory, "0555"),
        *_tree(HARNESS, spec.harness, memory),
        *_tree(SHARED, spec.shared, memory),
        *_installed(layout, spec.dependencies),
        "--remount-ro", "/dev",
        "--remount-ro", "/proc",
        "--remount-ro", "/",
        "--chdir", WORKSPACE,
    ]  # fmt: skip


def _namespaces() -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc")
    yield from ("--unshare-uts", "--unshare-cgroup-try", "--disable-userns")
    yield from ("--uid", str(UID), "--gid", str(UID), "--hostname", "sandbox")
    yield from ("--new-session", "--die-with-parent", "--cap-drop", "ALL")


def _environment(spec: SandboxSpec) -> Iterator[str]:
    yield "--clearenv"
    path = ":".join((*search_path(spec.runtimes), PATH))
    own = {"PATH": path, "HOME": WORKSPACE, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}  # noqa: S108
    own |= variables(spec.runtimes)
    if spec.network:
        own |= _PROXIED
    # A program that waits hears of these when it begins.
    late = () if spec.waits else spec.variables()
    for name, value in [*own.items(), *late]:
        yield from ("--setenv", name, value)


def _system(layout: Layout) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
        place = Path("/", name)
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), str(place))
        elif place.is_dir():
            yield from ("--ro-bind", str(place), str(place))
    hidden = [one for one in layout.hidden if _below(one, Path("/usr")) and one.is_dir()]
    for one in (Path("/usr/src"), Path("/usr/local/src"), *hidden):
        if one.is_dir():
            yield from ("--size", "4096", "--tmpfs", str(one), "--remount-ro", str(one))
    if layout.runtime is not None:
        yield from ("--dir", "/runtime", "--dir", "/runtime/bin")
        if layout.runtime.source is not None:
            yield from ("--ro-bind", str(layout.runtime.source), RUNTIME)
        for name in ("python", "python3"):
            yield from ("--symlink", layout.runtime.inside, f"/runtime/bin/{name}")


def _installed(layout: Layout, digest: str) -> Iterator[str]:
    place = layout.dependencies(digest) if digest else None
    if place is not None:
        yield from ("--ro-bind", str(place), f"/{DEPENDENCIES_FOLDER}")


def _etc(spec: SandboxSpec, memory: Descriptors) -> Iterator[str]:
    yield from ("--dir", "/etc")
    for name, content in (_FILES | _NAMED if spec.network else _FILES).items():
        yield from ("--perms", "0444", "--file", memory.memory(content), name)
    for name in (*_HOST_FILES, *(_TRUSTED if spec.network else ())):
        yield from ("--ro-bind-try", name, name)


def _kernel(limits: Limits) -> Iterator[str]:
    yield from ("--proc", "/proc")
    for name in _COVERED:
        if _open_to_all(Path("/proc", name)):
            yield from ("--dev-bind", "/dev/null", f"/proc/{name}")
    yield from ("--dev", "/dev", *_sized("/dev/shm", limits.shm_mb))  # noqa: S108 - as above


def _open_to_all(file: Path) -> bool:
    """Tell whether a file needs a cover: the kernel keeps the others for root, who is not here."""
    try:
        return bool(file.stat().st_mode & 0o006)
    except OSError:
        return False


def _sized(place: str, mebibytes: int) -> tuple[str, ...]:
    return ("--size", str(mebibytes * MIB), "--perms", "0700", "--tmpfs", place)


def _tree(
    place: str, files: tuple[tuple[str, bytes], ...], memory: Descriptors, perms: str = "0444"
) -> Iterator[str]:
    """Write a tree into a small file system of its own and close that for writing.

    The bytes come out of memory, so no path of the host shows up in the mount table, and nothing
    has to be swept from the host's disk.
    """
    if not files:
        return
    blocks = sum(-(-len(content) // 4096) + 1 for _, content in files)
    size = str(blocks * 4096 + 4 * MIB)
    yield from ("--size", size, "--perms", "0755", "--tmpfs", place)
    folders = {parent for name, _ in files for parent in PurePosixPath(name).parents}
    for folder in sorted(folders, key=lambda one: len(one.parts)):
        if folder.parts:
            yield from ("--perms", "0755", "--dir", f"{place}/{folder}")
    for name, content in files:
        yield from ("--perms", perms, "--file", memory.memory(content), f"{place}/{name}")
    yield from ("--remount-ro", place)

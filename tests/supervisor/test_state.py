"""What a clone keeps, how privately, and who may run beside it."""

import json
import os
import select
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kaizen.supervisor import state
from kaizen.supervisor.errors import CannotStart
from kaizen.supervisor.ports import LOOPBACK, first_free, is_free, listen
from kaizen.supervisor.processes import started_at
from kaizen.supervisor.stack import Stack


@pytest.fixture
def layout(tmp_path: Path) -> state.Layout:
    return state.open_layout(tmp_path / "var")


def test_secrets_are_made_once_and_only_the_owner_reads_them(layout: state.Layout) -> None:
    first = state.kept_secrets(layout)
    assert state.kept_secrets(layout) == first
    assert len(set(first.values())) == len(first)
    assert len(first["secret_key"]) >= 50
    assert stat.S_IMODE((layout.var / "secrets.json").stat().st_mode) == 0o600


def test_a_folder_that_was_open_to_all_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "var"
    place.mkdir()
    place.chmod(0o777)
    layout = state.open_layout(place)
    assert not stat.S_IMODE(layout.var.stat().st_mode) & 0o066


def test_what_lies_in_wait_under_the_name_of_a_private_file_is_not_written(
    layout: state.Layout,
) -> None:
    target = layout.var / "valkey.conf"
    theirs = layout.var / "theirs"
    theirs.write_text("as it was")
    theirs.chmod(0o644)
    (layout.var / f".valkey.conf.{os.getpid()}").hardlink_to(theirs)
    state.write_private(target, "requirepass hunter2")
    assert theirs.read_text() == "as it was"
    assert target.read_text() == "requirepass hunter2"
    assert target.stat().st_nlink == 1
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_damaged_secrets_are_named_and_not_replaced(layout: state.Layout) -> None:
    path = layout.var / "secrets.json"
    path.write_text("{")
    with pytest.raises(CannotStart, match=r"secrets\.json is damaged"):
        state.kept_secrets(layout)
    assert path.read_text() == "{"


def test_a_second_supervisor_is_told_where_the_first_one_serves(layout: state.Layout) -> None:
    first, second = state.Lock(layout), state.Lock(layout)
    first.take()
    state.write_private(
        layout.var / "running.json",
        json.dumps({"ready": True, "url": "http://127.0.0.1:8000", "pid": 7}),
    )
    with pytest.raises(CannotStart, match=r"already running at http://127\.0\.0\.1:8000"):
        second.take()
    first.release()
    second.take()
    second.release()


def test_a_supervisor_that_is_still_starting_is_told_apart(layout: state.Layout) -> None:
    first = state.Lock(layout)
    first.take()
    with pytest.raises(CannotStart, match="starting or stopping"):
        state.Lock(layout).take()
    first.release()


def test_large_logs_are_set_aside_and_the_oldest_go(
    layout: state.Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_LOG_BYTES", 10)
    log = layout.log("web")
    for round_ in range(5):
        log.write_text(f"{round_} and more than ten bytes")
        state.rotate_logs(layout)
    kept = sorted(path.name for path in layout.logs.iterdir())
    assert kept == ["web.log.1", "web.log.2", "web.log.3"]
    assert (layout.logs / "web.log.1").read_text().startswith("4")


def test_a_small_log_goes_on(layout: state.Layout) -> None:
    layout.log("web").write_text("short")
    state.rotate_logs(layout)
    assert layout.log("web").read_text() == "short"


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    var = tmp_path / "var"
    var.mkdir()
    owner = var.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CannotStart, match=f"belongs to user id {owner}"):
        state.open_layout(var)


def test_a_pointer_out_of_the_homes_of_root_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "ROOT_HOMES", tmp_path / "homes")
    (tmp_path / "home").write_text("/etc\n")
    with pytest.raises(CannotStart, match="should name a folder in"):
        state._root_home(tmp_path)


def test_commands_adopt_only_a_living_environment(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text(json.dumps({"DATABASE_URL": "here"}))
    ours = {"pid": os.getpid(), "mark": started_at(os.getpid())}
    (tmp_path / "running.json").write_text(json.dumps(ours))
    assert state.running_environment(tmp_path) == {"DATABASE_URL": "here"}
    (tmp_path / "running.json").write_text(json.dumps(ours | {"mark": "another life"}))
    assert state.running_environment(tmp_path) == {}


def test_ports_are_kept_across_restarts(layout: state.Layout) -> None:
    first = Stack(layout, say=print)
    first.stop()
    second = Stack(layout, say=print)
    second.stop()
    assert second.url == first.url


def test_a_taken_port_is_left_to_its_owner(layout: state.Layout) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        taken = other.getsockname()[1]
        assert not is_free(taken)
        assert first_free(taken, None) != taken
        state.write_private(layout.var / "ports.json", json.dumps({"web": taken}))
        stack = Stack(layout, say=print)
        stack.stop()
        assert not stack.url.endswith(f":{taken}")


def test_nobody_can_take_the_port_of_the_web_while_it_starts(layout: state.Layout) -> None:
    stack = Stack(layout, say=print)
    port = int(stack.url.rpartition(":")[2])
    assert not is_free(port)
    stack.stop()
    assert is_free(port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares visitors so")
def test_several_listeners_share_the_visitors_of_one_port() -> None:
    ours = listen(many=2)
    port = ours[0].getsockname()[1]
    assert {listener.getsockname() for listener in ours} == {(LOOPBACK, port)}
    visitors = [socket.create_connection((LOOPBACK, port)) for _ in range(64)]
    ready, _, _ = select.select(ours, [], [], 5)
    assert len(ready) == 2
    for one in (*visitors, *ours):
        one.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares visitors so")
def test_a_port_that_others_share_is_not_ours_to_join() -> None:
    theirs = listen(many=2)
    taken = theirs[0].getsockname()[1]
    ours = listen(taken, many=2)
    assert ours[0].getsockname()[1] != taken
    for one in (*theirs, *ours):
        one.close()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"DATABASE_URL": "postgresql://a:b@127.0.0.1:1/c"}, "unset DATABASE_URL"),
        ({"DATABASE_URL": "nonsense"}, "unset DATABASE_URL"),
    ],
)
def test_a_stale_address_is_named_before_anything_waits_on_it(
    tmp_path: Path, variables: dict[str, str], sentence: str
) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "up", "--var", str(tmp_path / "var")],
        cwd=state.CLONE,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert sentence in done.stdout
    assert "Traceback" not in done.stdout + done.stderr

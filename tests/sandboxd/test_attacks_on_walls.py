"""A program sees nothing of the machine it runs on, and reaches nobody outside."""

import os
import threading
from pathlib import Path

import pytest

from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def test_the_environment_holds_only_what_we_put_there(daemon: Daemon) -> None:
    told = daemon.told(
        "import json, os; print(json.dumps(dict(os.environ)))",
        env=(("KAIZEN_SHARED", "yes"),),
        correlation_id="abc-1",
    )
    told.pop("PWD", None)
    told.pop("OLDPWD", None)
    assert told == {
        "PATH": "/runtime/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/workspace",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "KAIZEN_SHARED": "yes",
        "KAIZEN_CORRELATION_ID": "abc-1",
    }


def test_no_process_of_the_host_can_be_seen(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        seen = {}
        for pid in sorted(int(n) for n in os.listdir("/proc") if n.isdigit()):
            found = []
            for name in ("environ", "maps", "root/etc/shadow", "fd/0"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        found.append(len(file.read(10)))
                except OSError:
                    found.append(-1)
            seen[pid] = found
        print(json.dumps([os.getppid(), sorted(seen), seen["1"] if "1" in seen else seen[1]]))
        """
    )
    parent, pids, first = told
    assert parent == 1
    assert len(pids) == 2
    # The first process is bubblewrap's own; it holds nothing, and its root is this sandbox.
    assert first[2] == -1


def test_host_files_are_absent(daemon: Daemon) -> None:
    told = daemon.told(
        f"""
        import json, os
        places = ["/etc/shadow", "/etc/machine-id", "/etc/ssh", "/etc/hostname", "/root", "/home",
                  "/var", "/var/run/docker.sock", "/run", "/run/docker.sock", "/run/dbus", "/sys",
                  "/boot", "/opt", "/srv", "/mnt", "/media", "/work", "/tmp/.X11-unix",
                  {str(daemon.socket)!r}, {str(daemon.folder)!r}, {str(Path(__file__))!r}]
        print(json.dumps([[p for p in places if os.path.exists(p)], sorted(os.listdir("/"))]))
        """
    )
    present, root = told
    assert present == []
    assert set(root) <= {
        "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "package", "proc", "runtime",
        "sbin", "tmp", "usr", "workspace",
    }  # fmt: skip


def test_no_source_of_ours_and_no_installed_package_can_be_imported(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import importlib.util, json, sys
        names = ("django", "apps", "kaizen", "psycopg", "redis", "celery")
        print(json.dumps([[n for n in names if importlib.util.find_spec(n)], sys.path]))
        """
    )
    assert told[0] == []
    assert not [one for one in told[1] if "site-packages" in one]


def test_only_the_agreed_descriptors_are_open(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        found = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                found[name] = os.readlink(f"/proc/self/fd/{name}").split(":")[0]
            except OSError:
                pass
        print(json.dumps(found))
        """
    )
    assert told == {"0": "pipe", "1": "pipe", "2": "pipe", "3": "socket"}


def test_secrets_and_levers_of_the_kernel_are_out_of_reach(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        readable, writable = [], []
        for name in ("kallsyms", "kcore", "kmsg", "keys", "key-users", "timer_list", "slabinfo",
                     "modules", "config.gz", "cmdline"):
            try:
                with open(f"/proc/{name}", "rb") as file:
                    if file.read(1):
                        readable.append(name)
            except OSError:
                pass
        for name in ("sys/kernel/core_pattern", "sys/vm/drop_caches", "sysrq-trigger",
                     "sys/user/max_user_namespaces", "sys/kernel/hostname", "self/oom_score_adj",
                     "sys/net/ipv4/ip_unprivileged_port_start"):
            try:
                with open(f"/proc/{name}", "w") as file:
                    file.write("1")
                writable.append(name)
            except OSError:
                pass
        print(json.dumps([readable, writable]))
        """
    )
    assert told == [[], []]
    assert Path("/proc/sys/kernel/core_pattern").read_text().strip() != "1"


def test_root_is_nobody_here(daemon: Daemon, sandbox_home: Path) -> None:
    """What only root may read stays unread, even where it lies below a folder that is bound."""
    secret = next((sandbox_home / "runtime").glob("cpython-*"), Path("/nonexistent")) / "secret"
    if daemon.as_root and secret.parent.is_dir():
        secret.write_text("of root alone")
        secret.chmod(0o600)
    told = daemon.told(
        """
        import json, os
        try:
            text = open("/runtime/python/secret").read()
        except OSError as problem:
            text = type(problem).__name__
        rows = [row.split() for row in open("/proc/self/uid_map")]
        print(json.dumps([text, rows, os.getuid(), os.stat("/usr").st_uid, os.getgroups()]))
        """
    )
    text, rows, uid, owner_of_usr, groups = told
    assert text in ("PermissionError", "FileNotFoundError")
    assert uid == 1000
    assert [row[0] for row in rows] == ["1000"]
    # The host's root has no name inside.
    assert owner_of_usr != 0
    assert set(groups) <= {1000}
    if daemon.as_root and secret.parent.is_dir():
        assert text == "PermissionError"
        secret.unlink()


def test_every_running_sandbox_has_a_user_id_of_its_own(daemon: Daemon) -> None:
    if not daemon.as_root:
        pytest.skip("Only a supervisor started as root has user ids to give.")
    seen: list[str] = []

    def look() -> None:
        told = daemon.python(
            "import time; print(open('/proc/mounts').read()); time.sleep(1)"
        ).stdout.decode()
        line = next(one for one in told.splitlines() if " /workspace " in one)
        seen.append(line.split("uid=")[1].split(",")[0])

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 2
    assert "0" not in seen


def test_the_first_process_inside_is_as_confined_as_the_program(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json
        rows = []
        for pid in (1, "self"):
            status = dict(l.split(":", 1) for l in open(f"/proc/{pid}/status") if ":" in l)
            rows.append([status[k].strip() for k in ("NoNewPrivs", "Seccomp", "CapEff", "Uid")])
        print(json.dumps(rows))
        """
    )
    assert told[0] == told[1] == ["1", "2", "0" * 16, "1000\t1000\t1000\t1000"]


def test_inputs_cannot_be_changed(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        done = []
        def attempt(name, do):
            try:
                do()
                done.append(name)
            except OSError:
                pass
        attempt("write", lambda: open("/package/data.txt", "w"))
        attempt("chmod", lambda: os.chmod("/package/data.txt", 0o777))
        attempt("rename", lambda: os.rename("/package/data.txt", "/package/other"))
        attempt("delete", lambda: os.unlink("/package/data.txt"))
        attempt("truncate", lambda: os.truncate("/package/data.txt", 0))
        attempt("create", lambda: open("/package/new", "w"))
        attempt("link", lambda: os.link("/package/data.txt", "/workspace/data.txt"))
        attempt("runtime", lambda: open("/runtime/x", "w"))
        print(json.dumps([done, open("/package/data.txt").read()]))
        """,
        files=(("data.txt", b"as it was"),),
    )
    assert told == [[], "as it was"]


def test_inputs_lie_on_no_path_of_the_host(daemon: Daemon) -> None:
    result = daemon.run("cat", "/proc/self/mountinfo", files=(("a/b.txt", b"x"),))
    assert str(daemon.folder).encode() not in result.stdout
    assert b" /package " in result.stdout


def test_the_name_of_the_host_is_hidden(daemon: Daemon) -> None:
    told = daemon.told(
        "import json, os, pwd; print(json.dumps([os.uname().nodename, pwd.getpwuid(1000)[0]]))"
    )
    assert told == ["sandbox", "sandbox"]


def test_two_sandboxes_do_not_meet(daemon: Daemon) -> None:
    results: dict[str, object] = {}

    def run(name: str) -> None:
        results[name] = daemon.told(
            """
            import json, os, signal, time
            open("/tmp/mine", "w").close()
            open("/dev/shm/mine", "w").close()
            until = time.monotonic() + 1.5
            seen = 0
            while time.monotonic() < until:
                seen = max(seen, sum(n.isdigit() for n in os.listdir("/proc")))
                time.sleep(0.05)
            try:
                os.kill(-1, signal.SIGKILL)
                killed = True
            except OSError:
                killed = False
            print(json.dumps([seen, os.listdir("/tmp"), os.listdir("/dev/shm")]))
            """
        )

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"one": [2, ["mine"], ["mine"]], "two": [2, ["mine"], ["mine"]]}


def test_nobody_watches_what_others_open_and_run(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, fcntl, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        watching = [name for name in ("inotify_init", "inotify_init1")
                    if getattr(libc, name)(0) != -1]
        try:
            fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS)
            watching.append("fcntl")
        except PermissionError:
            pass
        print(json.dumps(watching))
        """
    )
    assert told == []


def test_setuid_programs_gain_nothing(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
        done = []
        open("/workspace/tool", "w").close()
        for mode in (0o4755, 0o2755, 0o6755):
            try:
                os.chmod("/workspace/tool", mode)
                done.append(mode)
            except OSError:
                pass
        try:
            value = b"\\x01\\x00\\x00\\x02" + b"\\xff" * 16
            os.setxattr("/workspace/tool", "security.capability", value)
            done.append("capability")
        except OSError:
            pass
        flags = [l.split()[3] for l in open("/proc/mounts")]
        print(json.dumps([done, status["NoNewPrivs"].strip(), status["CapBnd"].strip(),
                          all("nosuid" in f for f in flags)]))
        """
    )
    assert told == [[], "1", "0000000000000000", True]


def test_nobody_outside_can_be_signalled(daemon: Daemon) -> None:
    told = daemon.told(
        f"""
        import json, os, signal
        hit = []
        for pid in ({os.getpid()}, {daemon.process.pid}):
            try:
                os.kill(pid, signal.SIGKILL)
                hit.append(pid)
            except OSError:
                pass
        print(json.dumps(hit))
        """
    )
    assert told == []
    assert daemon.process.poll() is None


def test_a_program_cannot_open_a_terminal(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json
        try:
            open("/dev/tty")
            print(json.dumps("open"))
        except OSError as problem:
            print(json.dumps(problem.errno))
        """
    )
    assert told in (6, 13)


def test_a_foreign_language_of_system_calls_kills(daemon: Daemon) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("Only x86-64 kernels answer a second set of system calls.")
    result = daemon.python(
        """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        # mov eax, 20 (getpid of 32-bit programs); int 0x80; ret
        page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        print(ctypes.CFUNCTYPE(ctypes.c_int)(address)(), flush=True)
        """
    )
    assert result.stdout == b""
    assert result.exit_code not in (0, None)

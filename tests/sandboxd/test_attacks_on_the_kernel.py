"""What the kernel would do for a program, it does not do for one in here: the neighbours too."""

import os

import pytest

from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def test_of_all_families_of_sockets_only_four_are_made(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, socket
        made = set()
        for family in range(64):
            for kind in (1, 2, 3, 4, 5, 6, 10):
                for protocol in (0, 1, 6, 17, 58, 132, 255, 0x300):
                    try:
                        socket.socket(family, kind, protocol).close()
                        made.add((family, kind, protocol))
                    except OSError:
                        pass
        print(json.dumps(sorted(made)))
        """
    )
    assert {family for family, _, _ in told} <= {1, 2, 10, 16}
    assert not [one for one in told if one[1] == 3 and one[0] in (2, 10)]
    assert {protocol for family, _, protocol in told if family == 16} <= {0}


def test_of_netlink_only_the_routing_table_answers_and_changes_nothing(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import errno, json, socket, struct
        made = []
        for protocol in range(1, 32):
            for kind in (2, 3):
                try:
                    socket.socket(16, kind, protocol).close()
                    made.append(protocol)
                except OSError:
                    pass
        answers = {}
        with socket.socket(16, 3, 0) as link:
            link.settimeout(5)
            # new link, new address, new route, new rule, new neighbour, new queue, new namespace id
            for kind in (16, 20, 24, 32, 28, 36, 88):
                link.send(struct.pack("<IHHII", 48, kind, 0x605, kind, 0) + bytes(32))
                answer = struct.unpack_from("<i", link.recv(4096), 16)[0]
                answers[kind] = errno.errorcode.get(-answer, answer)
        print(json.dumps([made, sorted(set(answers.values()))]))
        """
    )
    made, answers = told
    assert made == []
    assert answers == ["EPERM"]


def test_other_processes_are_neither_read_nor_steered(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, errno, json, os, signal, time
        libc = ctypes.CDLL(None, use_errno=True)
        secret = ctypes.create_string_buffer(b"secret", 16)
        child = os.fork()
        if child == 0:
            time.sleep(60)
        class Piece(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        mine = Piece(ctypes.addressof(ctypes.create_string_buffer(16)), 6)
        theirs = Piece(ctypes.addressof(secret), 6)
        handle = os.pidfd_open(child)
        tried = {
            "attach": lambda: libc.ptrace(16, child, 0, 0),
            "seize": lambda: libc.ptrace(0x4206, child, 0, 0),
            "trace me": lambda: libc.ptrace(0, 0, 0, 0),
            "read": lambda: libc.process_vm_readv(child, ctypes.byref(mine), 1,
                                                  ctypes.byref(theirs), 1, 0),
            "write": lambda: libc.process_vm_writev(child, ctypes.byref(mine), 1,
                                                    ctypes.byref(theirs), 1, 0),
            "take a descriptor": lambda: libc.syscall(438, handle, 0, 0),
            "advise": lambda: libc.syscall(440, handle, ctypes.byref(theirs), 1, 4, 0),
        }
        done = {}
        for name, act in tried.items():
            ctypes.set_errno(0)
            done[name] = [act(), errno.errorcode.get(ctypes.get_errno())]
        try:
            open(f"/proc/{child}/mem", "r+b").close()
            done["mem"] = "writable"
        except OSError:
            pass
        os.kill(child, signal.SIGKILL)
        print(json.dumps(done))
        """
    )
    assert told
    assert all(one == [-1, "EPERM"] for one in told.values()), told


def test_no_namespace_is_made_or_entered(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, errno, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
        done = []
        flags = [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
        for flag in flags:
            if libc.unshare(flag) == 0:
                done.append(["unshare", flag])
            if flag == 0x80:
                continue  # no clone flag of the old call
            child = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
            if child == 0:
                os._exit(0)
            if child > 0:
                done.append(["clone", flag])
            child = libc.syscall(435, ctypes.byref((ctypes.c_uint64 * 11)(flag)), 88)
            if child == 0:
                os._exit(0)
            if child > 0:
                done.append(["clone3", flag])
        for pid in ("self", "1"):
            for kind in os.listdir(f"/proc/{pid}/ns"):
                try:
                    number = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                except OSError:
                    continue
                if libc.setns(number, 0) == 0:
                    done.append(["setns", pid, kind])
        if libc.setns(os.pidfd_open(1), 0x20000) == 0:
            done.append("setns by process")
        print(json.dumps(done))
        """
    )
    assert told == []


def test_nothing_is_mounted_and_no_root_changed(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        before = open("/proc/mounts").read()
        done = []
        os.makedirs("/workspace/a/b")
        for name, act in {
            "tmpfs": lambda: libc.mount(b"x", b"/workspace/a", b"tmpfs", 0, None),
            "bind": lambda: libc.mount(b"/", b"/workspace/a", None, 4096 | 16384, None),
            "remount": lambda: libc.mount(b"none", b"/", None, 32 | 4096, None),
            "writable package": lambda: libc.mount(b"none", b"/package", None, 32, None),
            "move": lambda: libc.mount(b"/workspace", b"/tmp", None, 8192, None),
            "proc": lambda: libc.mount(b"proc", b"/workspace/a", b"proc", 0, None),
            "overlay": lambda: libc.mount(b"o", b"/workspace/a", b"overlay", 0, b"lowerdir=/usr"),
            "umount": lambda: libc.umount2(b"/proc", 2),
            "umount cover": lambda: libc.umount2(b"/proc/kcore", 2),
            "pivot": lambda: libc.syscall({"x86_64": 155, "aarch64": 41}[os.uname().machine],
                                          b"/workspace", b"/workspace/a"),
            "chroot": lambda: libc.chroot(b"/workspace"),
            "fsopen": lambda: libc.syscall(430, b"tmpfs", 0),
            "open tree": lambda: libc.syscall(428, -100, b"/", 1),
            "setattr": lambda: libc.syscall(442, -100, b"/", 0, bytes(32), 32),
        }.items():
            if act() >= 0:
                done.append(name)
        print(json.dumps([done, before == open("/proc/mounts").read()]))
        """
    )
    assert told == [[], True]


def test_the_machine_is_not_changed(daemon: Daemon) -> None:
    name = os.uname().nodename
    told = daemon.told(
        """
        import ctypes, json, os, resource, time
        libc = ctypes.CDLL(None, use_errno=True)
        done = []
        class Time(ctypes.Structure):
            _fields_ = [("s", ctypes.c_long), ("n", ctypes.c_long)]
        for what, act in {
            "reboot": lambda: libc.reboot(0x1234567),
            "clock": lambda: libc.clock_settime(0, ctypes.byref(Time(int(time.time()), 0))),
            "day": lambda: libc.settimeofday(ctypes.byref(Time(int(time.time()), 0)), None),
            "adjust": lambda: libc.adjtimex(bytes(256)),
            "name": lambda: libc.sethostname(b"mine", 4),
            "domain": lambda: libc.setdomainname(b"mine", 4),
            "swap": lambda: libc.swapon(b"/workspace/x", 0),
            "account": lambda: libc.acct(b"/workspace/x"),
            "quota": lambda: libc.quotactl(0x800002 << 8, None, 0, None),
            "log": lambda: libc.klogctl(3, ctypes.create_string_buffer(64), 64),
            "hang up": lambda: libc.vhangup(),
            "compat": lambda: libc.personality(0x0040000),
            "no random": lambda: libc.personality(0x0040000 | 0x0000008),
            "handle": lambda: libc.name_to_handle_at(-100, b"/usr", ctypes.create_string_buffer(
                b"\\x80\\0\\0\\0", 256), ctypes.byref(ctypes.c_int()), 0),
            "by handle": lambda: libc.open_by_handle_at(-100, bytes(64), 0),
            "keyring": lambda: libc.syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine],
                                            0, -3, 1),
            "key": lambda: libc.syscall({"x86_64": 248, "aarch64": 217}[os.uname().machine],
                                        b"user", b"n", b"x", 1, -3),
            "bpf": lambda: libc.syscall({"x86_64": 321, "aarch64": 280}[os.uname().machine],
                                        5, bytes(128), 128),
            "perf": lambda: libc.syscall({"x86_64": 298, "aarch64": 241}[os.uname().machine],
                                         bytes(128), 0, -1, -1, 0),
            "ring": lambda: libc.syscall(425, 8, ctypes.create_string_buffer(120)),
            "userfault": lambda: libc.syscall({"x86_64": 323, "aarch64": 282}[os.uname().machine],
                                              1),
            "watch everything": lambda: libc.fanotify_init(0, 0),
            "privileges": lambda: libc.prctl(8, 1, 0, 0, 0),
            "ambient": lambda: libc.prctl(47, 2, 21, 0, 0),
            "user": lambda: libc.setuid(0),
            "group": lambda: libc.setgid(0),
            "groups": lambda: libc.setgroups(1, (ctypes.c_uint * 1)(0)),
        }.items():
            # Some answer how much they wrote; a keyring and "keep capabilities" answer zero.
            if act() >= 0 and what != "privileges":
                done.append(what)
        status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
        print(json.dumps([done, status["CapEff"].strip(), os.uname().nodename]))
        """
    )
    assert told == [[], "0" * 16, "sandbox"]
    assert os.uname().nodename == name


def test_terminals_take_no_words_from_a_program(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import errno, fcntl, json, os, termios
        done = {}
        master, slave = os.openpty()
        for name, request, argument in (
            ("TIOCSTI", 0x5412, b"x"), ("TIOCLINUX", 0x541C, b"\\x03"),
            ("TIOCSETD", 0x5423, b"\\0" * 4),
        ):
            try:
                fcntl.ioctl(slave, request, argument)
                done[name] = "done"
            except OSError as problem:
                done[name] = errno.errorcode[problem.errno]
        try:
            os.open("/dev/tty", os.O_RDWR)
            done["tty"] = "open"
        except OSError:
            pass
        done["console"] = os.path.exists("/dev/console") and os.access("/dev/console", os.W_OK)
        print(json.dumps(done))
        """
    )
    assert told.pop("console") is False
    assert set(told.values()) == {"EPERM"}, told


def test_a_second_set_of_call_numbers_kills(daemon: Daemon) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("Only x86-64 kernels answer a second set of system calls.")
    result = daemon.python(
        """
        import ctypes
        print(ctypes.CDLL(None).syscall(0x40000000 + 39), flush=True)
        """
    )
    assert result.stdout == b""
    assert result.exit_code not in (0, None)


def test_nothing_of_the_kernels_files_can_be_written(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os
        writable = []
        for folder, names, files in os.walk("/proc"):
            if folder.count("/") > 6:
                names.clear()
            for name in files:
                path = f"{folder}/{name}"
                if os.path.islink(path) or "/fd/" in path or "/map_files/" in path:
                    continue
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue
                # A cover is the null device, which swallows what it is given.
                if os.stat(path).st_rdev != os.makedev(1, 3):
                    writable.append(path)
        print(json.dumps(writable))
        """
    )
    assert told == []


def test_only_harmless_devices_are_there(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os, stat
        devices = []
        for folder, names, files in os.walk("/dev"):
            for name in files:
                seen = os.lstat(f"{folder}/{name}").st_mode
                if stat.S_ISBLK(seen) or stat.S_ISCHR(seen):
                    devices.append(f"{folder}/{name}")
        made = []
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            for place in ("/workspace", "/tmp", "/dev/shm"):
                try:
                    os.mknod(f"{place}/device", kind | 0o666, os.makedev(1, 1))
                    made.append(place)
                except OSError:
                    pass
        flags = {l.split()[1]: l.split()[3] for l in open("/proc/mounts")}
        plain = [p for p in ("/", "/workspace", "/tmp", "/dev/shm") if "nodev" not in flags[p]]
        print(json.dumps([sorted(devices), made, plain]))
        """
    )
    devices, made, plain = told
    wanted = {"full", "null", "random", "tty", "urandom", "zero", "ptmx"}
    assert {one for one in devices if not one.startswith("/dev/pts/")} <= {
        f"/dev/{name}" for name in wanted
    }
    assert (made, plain) == ([], [])


def test_programs_with_more_rights_outside_have_none_here(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os, stat, subprocess
        marked = []
        for folder in ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/libexec", "/usr/lib"):
            for where, _, names in os.walk(folder):
                for name in names:
                    try:
                        mode = os.lstat(f"{where}/{name}").st_mode
                    except OSError:
                        continue
                    if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                        marked.append(f"{where}/{name}")
        flags = {l.split()[1]: l.split()[3] for l in open("/proc/mounts")}
        done = []
        for command in (["su", "-c", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"],
                        ["unshare", "-r", "true"], ["unshare", "-n", "true"],
                        ["nsenter", "-t", "1", "-m", "true"], ["chroot", "/usr", "/bin/true"],
                        ["setpriv", "--reuid", "0", "true"], ["newuidmap", "1", "0", "0", "1"],
                        ["ping", "-c", "1", "127.0.0.1"], ["umount", "-l", "/proc"]):
            try:
                ended = subprocess.run(command, capture_output=True, timeout=10,
                                       stdin=subprocess.DEVNULL).returncode
            except (OSError, subprocess.TimeoutExpired):
                continue
            if ended == 0:
                done.append(command[0])
        print(json.dumps([bool(marked), "nosuid" in flags["/usr"], done]))
        """
    )
    _, nosuid, done = told
    assert nosuid
    assert set(done) <= {"ping"}  # an ordinary datagram, on its own loopback


def test_no_result_channel_of_another_process_is_written(daemon: Daemon) -> None:
    """The answer goes over a socket, which no path under /proc opens a second time."""
    result = daemon.python(
        """
        import glob, json, os, socket, time
        child = os.fork()
        if child == 0:
            os.close(3)
            for path in glob.glob("/proc/[0-9]*/fd/*"):
                try:
                    if not os.readlink(path).startswith("socket:"):
                        continue
                    number = os.open(path, os.O_WRONLY)
                    os.write(number, b"forged")
                except OSError:
                    pass
            os._exit(0)
        os.waitpid(child, 0)
        socket.socket(fileno=3).sendall(b"honest")
        """
    )
    assert result.result == b"honest"


def test_the_mounts_are_those_of_the_plan(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json
        rows = [line.split() for line in open("/proc/mounts")]
        print(json.dumps([[row[1], row[2], row[3].split(",")[0]] for row in rows]))
        """,
        harness=(("x", b""),),
    )
    writable = {place for place, _, mode in told if mode == "rw"}
    assert writable <= {
        "/workspace", "/tmp", "/dev/shm", "/dev/pts",
        # Single devices of bubblewrap's minimal set; what is written there goes nowhere.
        *(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")),
        *(place for place, _, _ in told if place.startswith("/proc/")),
    }, writable  # fmt: skip
    assert {"/workspace", "/tmp", "/dev/shm"} <= writable
    kinds = {kind for _, kind, _ in told}
    assert not kinds & {"sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf"}

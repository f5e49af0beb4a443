"""What is unpacked of a registry's archive, and what refuses it?"""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from apps.domain.tarballs import BadTarball, read_tarball
from tests.factories import locks


def of(kind: bytes, name: str = "package/x") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "../../etc/passwd"
        tar.addfile(entry)
    return buffer.getvalue()


def test_files_come_without_the_folder_that_holds_them() -> None:
    for top in ("package", "some-name"):
        found = read_tarball(locks.archive({"a.js": b"1", "bin/x": b"2"}, top=top))
        assert [(one.path, one.content, one.executable) for one in found] == [
            ("a.js", b"1", False),
            ("bin/x", b"2", True),
        ]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                                  tarfile.BLKTYPE, tarfile.FIFOTYPE])  # fmt: skip
def test_links_and_devices_refuse_it(kind: bytes) -> None:
    with pytest.raises(BadTarball):
        read_tarball(of(kind))


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "a\\b", "a\nb", "a//b", "a/./b"]
)
def test_names_that_would_leave_it_refuse_it(name: str) -> None:
    with pytest.raises(BadTarball):
        read_tarball(locks.archive({name: b"1"}))


@pytest.mark.parametrize("names", [("A.js", "a.js"), ("x", "x/y")])
def test_names_that_clash_refuse_it(names: tuple[str, str]) -> None:
    with pytest.raises(BadTarball):
        read_tarball(locks.archive(dict.fromkeys(names, b"1")))


def test_a_bomb_refuses_it_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(4 * 1024 * 1024))
    with pytest.raises(BadTarball, match="unpacks to more"):
        read_tarball(bomb, max_bytes=1024 * 1024)


def test_folders_count_like_files() -> None:
    folder = tarfile.TarInfo("package/d")
    folder.type = tarfile.DIRTYPE
    many = gzip.compress(folder.tobuf() * 50 + bytes(1024))
    assert read_tarball(many, max_files=50) == []
    with pytest.raises(BadTarball, match="more than 49 files"):
        read_tarball(many, max_files=49)


def test_headers_that_follow_each_other_without_end_refuse_it() -> None:
    long_name = tarfile.TarInfo("././@LongLink")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 2
    chain = (long_name.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * 3000
    with pytest.raises(BadTarball, match="damaged"):
        read_tarball(gzip.compress(chain + tarfile.TarInfo("package/x").tobuf() + bytes(1024)))


@pytest.mark.parametrize("data", [b"", b"no archive", gzip.compress(b"x" * 600, mtime=0)[:-9]])
def test_what_is_damaged_refuses_it(data: bytes) -> None:
    with pytest.raises(BadTarball):
        read_tarball(data)


def test_too_many_files_refuse_it() -> None:
    with pytest.raises(BadTarball):
        read_tarball(locks.archive({f"{n}.js": b"" for n in range(12)}), max_files=10)

"""What a package manager is asked to do for a package runs nothing of it and fetches nothing."""

import io
import json
import tarfile
from dataclasses import replace

import pytest

from apps.sandbox.spec import Limits
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox

NPM = replace(Limits.for_node(), wall_ms=40_000, cpu_ms=20_000, processes=128)
HOOKS = ("preinstall", "install", "postinstall", "prepare", "prepublish", "prepack", "postpack")


def _package(name: str, **more: object) -> bytes:
    scripts = {hook: f"touch /tmp/ran-{name}-{hook}" for hook in HOOKS}
    return json.dumps({"name": name, "version": "1.0.0", "scripts": scripts, **more}).encode()


def _archive(files: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def test_no_script_of_a_package_or_its_dependency_runs(daemon: Daemon) -> None:
    result = daemon.run(
        "/bin/sh", "-c",
        "cp -r /package/. . && npm install --ignore-scripts --offline --no-audit --no-fund >&2;"
        " ls node_modules; ls -A /tmp | grep ran- ; true",
        runtimes=("node",), limits=NPM,
        files=(
            ("package.json", _package("root", dependencies={"dep": "file:./dep.tgz"})),
            ("dep.tgz", _archive({
                "package.json": _package("dep"),
                "index.js": b"module.exports = 1",
                # Its mere presence would start a compiler.
                "binding.gyp": b'{"targets": [{"target_name": "x", "sources": ["x.c"]}]}',
                # What a package writes here would speak for the whole installation.
                ".npmrc": b"ignore-scripts=false\n",
            })),
        ),
    )  # fmt: skip
    assert result.reason == "ok", result
    assert result.stdout.split() == [b"dep"]


@pytest.mark.parametrize(
    "source",
    [
        "git+https://example.org/a.git", "git+ssh://git@example.org/a.git", "github:a/b",
        "http://169.254.169.254/latest.tgz", "https://example.org/a.tgz", "npm:left-pad@1.3.0",
        "1.0.0",
    ],
)  # fmt: skip
def test_nothing_is_fetched_from_anywhere(daemon: Daemon, source: str) -> None:
    manifest = json.dumps(
        {"name": "root", "version": "1.0.0", "dependencies": {"dep": source}}
    ).encode()
    result = daemon.run(
        "/bin/sh", "-c",
        "cp /package/package.json . && npm install --ignore-scripts --no-audit --no-fund"
        " --fetch-retries=0 --fetch-timeout=3000 >/dev/null 2>&1; echo $?; ls node_modules 2>&1",
        runtimes=("node",), limits=NPM, files=(("package.json", manifest),),
    )  # fmt: skip
    assert result.reason in ("ok", "exit"), result
    lines = result.stdout.decode().splitlines()
    assert lines[0] != "0"
    assert "dep" not in lines[1:]

"""Programs get the runtimes that their job names, each whole and each confined like all others."""

import json
from dataclasses import replace

import pytest

from apps.sandbox.client import available
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.spec import Limits, SandboxSpec
from apps.sandboxd.jobs import BadJob, check_spec
from tests.sandboxd.daemon import QUICK, Daemon

pytestmark = pytest.mark.sandbox

NODE = replace(Limits.for_node(), wall_ms=20_000, cpu_ms=10_000)


def test_the_office_python_makes_every_kind_of_document(daemon: Daemon) -> None:
    told = daemon.run(
        "python", "-I", "-B", "/package/main.py", runtimes=("office",),
        files=(("main.py", b"""
import json, os, sys
import docx, numpy, openpyxl, pandas, pptx
from matplotlib import pyplot
from reportlab.pdfgen.canvas import Canvas
deck = pptx.Presentation(); deck.slides.add_slide(deck.slide_layouts[0]); deck.save("a.pptx")
paper = docx.Document(); paper.add_paragraph("hello"); paper.save("a.docx")
pandas.DataFrame({"a": numpy.arange(3)}).to_excel("a.xlsx")
canvas = Canvas("a.pdf"); canvas.drawString(10, 10, "hello"); canvas.save()
pyplot.plot([1, 2, 3]); pyplot.title("hello"); pyplot.savefig("a.png")
print(json.dumps({"files": sorted(os.listdir(".")), "prefix": sys.prefix}))
"""),),
        limits=Limits(wall_ms=30_000, cpu_ms=20_000),
        outputs=("a.png", "a.pdf"),
    )  # fmt: skip
    assert told.reason == "ok", told
    assert json.loads(told.stdout) == {
        "files": ["a.docx", "a.pdf", "a.png", "a.pptx", "a.xlsx"],
        "prefix": "/runtime/office",
    }
    assert told.stderr == b""  # no word about caches, fonts or missing folders
    assert [one.content[:4] for one in told.outputs] == [b"\x89PNG", b"%PDF"]


def test_node_runs_scripts_types_and_npm(daemon: Daemon) -> None:
    told = daemon.run(
        "/bin/sh", "-c",
        "node /package/main.ts && npm --version && node --test /package/a.test.mjs; ls -A",
        runtimes=("node",),
        files=(
            ("a.test.mjs", b"import test from 'node:test'; test('one', () => {});"),
            ("main.ts", b"const a: string = 'typed'; console.log(a, process.versions.node);"),
        ),
        limits=NODE,
    )  # fmt: skip
    assert told.reason == "ok", told
    lines = told.stdout.decode().splitlines()
    assert lines[0].startswith("typed ")
    assert tuple(int(part) for part in lines[0].split()[1].split(".")[:2]) >= (22, 19)
    assert "ℹ pass 1" in lines or "# pass 1" in lines
    assert ".npm" not in lines  # nothing but the program's own files in the workspace


def test_the_pi_loader_comes_with_node(daemon: Daemon) -> None:
    told = daemon.run(
        "node", "--input-type=module", "-e",
        "const root = 'file:///runtime/pi/node_modules/@earendil-works/';"
        "const pi = await import(root + 'pi-coding-agent/dist/bundle/index.js');"
        "const ai = await import(root + 'pi-ai/dist/index.js');"
        "console.log(pi.VERSION, typeof pi.discoverAndLoadExtensions,"
        " Object.keys(ai).includes('validateToolArguments'));",
        runtimes=("pi",), limits=NODE,
    )  # fmt: skip
    assert (told.reason, told.stdout.split()[1:]) == ("ok", [b"function", b"true"]), told


def test_without_being_named_no_runtime_is_there(daemon: Daemon) -> None:
    told = daemon.told("""
        import importlib.util, json, os, shutil
        print(json.dumps([sorted(os.listdir("/runtime")), shutil.which("npm"),
                          importlib.util.find_spec("pptx") is None]))
    """)
    assert told[0] in (["bin", "python"], ["bin"])
    assert not str(told[1]).startswith("/runtime")
    assert told[2]


@pytest.mark.parametrize("name", ["office", "node", "pi"])
def test_nothing_of_a_runtime_can_be_written(daemon: Daemon, name: str) -> None:
    told = daemon.told(
        """
        import json, os, pathlib, sys
        done = []
        for place in pathlib.Path("/runtime").glob("*/*"):
            for act in (lambda: place.chmod(0o777), lambda: place.rename(f"{place}x"),
                        lambda: (place.parent / "new").write_text("x")):
                try:
                    act()
                except OSError:
                    continue
                done.append(str(place))
        print(json.dumps(done))
        """,
        runtimes=(name,),
    )
    assert told == []


def test_the_host_does_not_show_through_a_runtime(daemon: Daemon) -> None:
    told = daemon.run(
        "python", "-I", "-c",
        "import numpy, pptx; print(numpy.__file__, pptx.Presentation.__code__.co_filename)",
        runtimes=("office",), limits=QUICK,
    )  # fmt: skip
    assert all(one.startswith(b"/runtime/office/") for one in told.stdout.split()), told


def test_names_outside_the_closed_list_are_no_job(daemon: Daemon) -> None:
    for names in (("perl",), ("node", "node"), ("python",)):
        with pytest.raises(BadJob, match="runtimes of a job"):
            check_spec(SandboxSpec(argv=("true",), runtimes=names))


def test_the_probe_names_each_version(daemon: Daemon) -> None:
    report = available(path=daemon.socket, fresh=True)
    versions = dict(report.runtimes)
    assert set(versions) == {"office", "node", "pi"}
    assert "python-pptx 1." in versions["office"]
    assert "npm" in versions["node"]
    assert report.lacks(("office", "pi")) == ""


def test_a_runtime_that_is_not_there_is_refused_and_nothing_else(
    another_daemon: "type[Daemon]", daemon: Daemon
) -> None:
    bare = another_daemon("--runtime", str(daemon.home / "runtime" / "python"))
    with pytest.raises(SandboxUnavailable, match=r"no working node runtime: run `make venv`"):
        bare.run("node", "--version", runtimes=("node",))
    assert bare.run("python", "-c", "print(1)").stdout == b"1\n"
    report = available(path=bare.socket)
    assert report.ok
    assert any("No office runtime" in line for line in report.missing)

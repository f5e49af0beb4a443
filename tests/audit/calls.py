"""Which functions of ours change rows, and which of them end in a row of audit? Read from source.

A reading of imports and names, not of types: what it cannot resolve counts as nothing written, so
a verb that hides its audit row from it has to be named, with the reason, in the test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
AUDIT = {"apps.audit.services.record", "apps.audit.refusals.record_refusal"}
# What a queryset or a model is told to change rows.
WRITES = {
    "create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "save",
    "delete",
}  # fmt: skip
# What writes rows with a statement made once.
PREPARED = {f"apps.core.prepared.{name}" for name in ("insert", "insert_last")}
# The same words, said to what is no row.
HARMLESS = {"headers", "changes", "seen", "self", "counts", "entries", "lines", "known", "held"}


@dataclass
class Verb:
    """One function: whether it writes rows itself, and what it calls."""

    name: str
    writes: bool = False
    calls: set[str] = field(default_factory=set)


def verbs_below(*folders: str) -> dict[str, Verb]:
    """Read every module below these folders."""
    found: dict[str, Verb] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            for verb in _verbs_of(path):
                found[verb.name] = verb
    return found


def reaches(verbs: dict[str, Verb], start: str, *, writes: bool) -> bool:
    """Whether a function, or what it calls, writes rows (or writes a row of audit)."""
    seen, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in AUDIT:
            if not writes:
                return True
            continue
        verb = verbs.get(name)
        if verb is None:
            continue
        if writes and verb.writes:
            return True
        waiting.extend(verb.calls)
    return False


def _verbs_of(path: Path) -> Iterator[Verb]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text())
    names = _imports(tree)
    local = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {name: f"{module}.{name}" for name in local}
    changes = _changes(tree)
    if path.name == "__init__.py":
        # A package that hands its parts on: its names are theirs.
        for name, target in _imports(tree).items():
            yield Verb(f"{module}.{name}", calls={target})
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield _read(f"{module}.{node.name}", node, names, changes)
        elif isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            methods = names | {f"self.{one.name}": f"{module}.{node.name}.{one.name}"
                               for one in inner}  # fmt: skip
            for one in inner:
                yield _read(f"{module}.{node.name}.{one.name}", one, methods, changes)
            yield Verb(
                f"{module}.{node.name}",
                calls={f"{module}.{node.name}.{one.name}" for one in inner},
            )


def _imports(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = alias.name
    return names


def _changes(tree: ast.Module) -> set[str]:
    """Return how a module calls the updates that it has prepared."""
    return {
        f"{target.id}.run"
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "Change"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _read(name: str, function: ast.FunctionDef, names: dict[str, str], changes: set[str]) -> Verb:
    verb = Verb(name)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            said = ast.unparse(node.func)
            head, _, rest = said.partition(".")
            verb.calls.add(
                names.get(said) or (names.get(head, head) + (f".{rest}" if rest else ""))
            )
            verb.writes |= _writes_rows(node.func) or said in changes or names.get(said) in PREPARED
        elif isinstance(node, ast.Name) and node.id in names:
            # Handed on, to be called by somebody else.
            verb.calls.add(names[node.id])
    return verb


def _writes_rows(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in WRITES:
        return False
    said = ast.unparse(function.value)
    if ".objects" in said or "_default_manager" in said:
        return True
    return function.attr in ("save", "delete") and said not in HARMLESS

"""A tool holds no key, keeps no trail of its own, and never reads what gives authority."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "apps" / "tools"
FILES = sorted(TOOLS.rglob("*.py"))

# Models are reached by the turn, the trail is written by the boundary, tokens are read at edges.
FORBIDDEN_MODULES = (
    "apps.audit",
    "apps.turns",
    "apps.boundary",
    "apps.accounts.tokens",
    "apps.approvals.services",
    "apps.quotas",
    "openai",
    "knox",
    "jwt",
    "cryptography",
    "hmac",
)
FORBIDDEN_NAMES = {
    "KAIZEN_MODEL_KEY",
    "KAIZEN_AUDIT_KEY",
    "KAIZEN_METRICS_TOKEN",
    "SECRET_KEY",
    "environ",
    "getenv",
    "token_hash",
    "fence",
    "Receipt",
}
# The check of declarations starts a child, and says what that child may know.
MAY_READ_THE_ENVIRONMENT = {"checking"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(TOOLS)))
def test_a_tool_reaches_for_no_authority(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    allowed = (
        {"environ"} if MAY_READ_THE_ENVIRONMENT & set(file.relative_to(TOOLS).parts) else set()
    )
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            assert not any(
                module == forbidden or module.startswith(f"{forbidden}.")
                for forbidden in FORBIDDEN_MODULES
            ), module
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        assert name not in FORBIDDEN_NAMES - allowed, name

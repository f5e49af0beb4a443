"""Tools are tried in the same real sandbox as everywhere."""

from tests.sandboxd.conftest import daemon, sandbox_home

__all__ = ["daemon", "sandbox_home"]

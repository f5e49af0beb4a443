"""The tests of the sandbox's callers use the same real supervisor as those of the sandbox."""

from tests.sandboxd.conftest import another_daemon, daemon, sandbox_home

__all__ = ["another_daemon", "daemon", "sandbox_home"]

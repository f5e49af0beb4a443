"""What do the tests of the sandbox share? One real supervisor, and more for those who break it."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandboxd.daemon import Daemon, UnfilteredDaemon, UserDaemon, make_home

IDENTITIES = {"own": Daemon, "root": Daemon, "user": UserDaemon, "unfiltered": UnfilteredDaemon}
ATTACKS = ("test_attacks_on_", "test_outputs", "test_seccomp")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every attack on the walls twice where we can: as root, and as an ordinary user."""
    name = metafunc.module.__name__.rpartition(".")[2]
    # Modules with a supervisor of their own start it as they need it.
    if not name.startswith(ATTACKS) or hasattr(metafunc.module, "daemon"):
        return
    if "daemon" in metafunc.fixturenames:
        # A benchmark asks for a build without its filter, to see that it is found open.
        named = os.environ.get("KAIZEN_ATTACKS_ON")
        usual = ["root", "user"] if os.geteuid() == 0 else ["own"]
        metafunc.parametrize("daemon", [named] if named else usual, indirect=True, scope="session")


@pytest.fixture(scope="session")
def sandbox_home() -> Iterator[Path]:
    """A reachable folder with the sandbox's Python."""
    home = make_home()
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def daemon(sandbox_home: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """The supervisor that most tests ask."""
    one = IDENTITIES[getattr(request, "param", "own")](sandbox_home)
    yield one
    one.remove()


@pytest.fixture
def another_daemon(sandbox_home: Path) -> Iterator[Callable[..., Daemon]]:
    """Start supervisors of a test's own, with options."""
    made: list[Daemon] = []

    def start(*options: str) -> Daemon:
        made.append(Daemon(sandbox_home, *options))
        return made[-1]

    yield start
    for one in made:
        one.remove()

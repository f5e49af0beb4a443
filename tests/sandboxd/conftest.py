"""What do the tests of the sandbox share? One real supervisor, and more for those who break it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sandboxd.daemon import Daemon, make_home


@pytest.fixture(scope="session")
def sandbox_home() -> Iterator[Path]:
    """A reachable folder with the sandbox's Python."""
    home = make_home()
    yield home
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def daemon(sandbox_home: Path) -> Iterator[Daemon]:
    """The supervisor that most tests ask."""
    one = Daemon(sandbox_home)
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

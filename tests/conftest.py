"""What do all tests share? The environment of the settings, and services on first need."""

from collections.abc import Iterator
from typing import Any

import django
import pytest
import redis
from django.conf import settings
from django.test import TransactionTestCase, override_settings
from servestatic.middleware import ServeStaticMiddleware

from tests import services
from tests.emptying import empty_database
from tests.spread import Together, demand_shared
from tests.stack import RunningStack

services.begin()
# Before the conftests of single folders, which import models.
django.setup()

from apps.core.metrics import board  # noqa: E402

SLOWEST = ("workers", "browser", "sandbox")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let each process of a spread run begin as the first one did, with services of its own."""
    services.leave_to_workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    """Give files that share whole stacks to one process, so that no stack starts twice."""
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name no case by bytes that are not text: packed ones differ from second to second."""
    return argname if isinstance(val, bytes) and not val.decode("latin-1").isprintable() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process is left alone with it at the end."""
    demand_shared(items)
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in SLOWEST))


def pytest_unconfigure() -> None:
    """Count nothing more: the services end before this process, and so does its log."""
    board.stop()


@pytest.fixture(scope="session")
def embedded_services() -> None:
    """Start PostgreSQL and Valkey; whatever touches the database has asked for this already."""
    services.start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    embedded_services: None, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Start the services before pytest-django makes its test database, one for each process."""


@pytest.fixture(scope="session", autouse=True)
def quick_emptying() -> Iterator[None]:
    """Leave an empty database after each test that commits, at the price of what it wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_database)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash the passwords of test members quickly; nobody attacks them."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Look for the static files once: each test client would open every one of them again."""
    look = ServeStaticMiddleware.add_files_from_finders
    found: dict[Any, ServeStaticMiddleware] = {}

    def recall(middleware: ServeStaticMiddleware) -> None:
        first = found.setdefault((middleware.static_prefix, middleware.max_age), middleware)
        if first is middleware:
            look(middleware)
        else:
            middleware.files = dict(first.files)
            middleware.directories = list(first.directories)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeStaticMiddleware, "add_files_from_finders", recall)
        yield


@pytest.fixture(autouse=True)
def nobody_was_counted(request: pytest.FixtureRequest) -> None:
    """Begin each test that reaches the stores with no use counted, whatever ran before it."""
    if request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(
        request.fixturenames
    ):
        request.getfixturevalue("embedded_services")
        counts = redis.Redis.from_url(settings.REDIS_URL)
        for key in counts.scan_iter("kaizen:throttle:*"):
            counts.delete(key)
        counts.close()


@pytest.fixture(scope="session")
def running_stack() -> Iterator[RunningStack]:
    """Run every process of Kaizen for the session, apart from the tests' own database."""
    stack = RunningStack()
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()


@pytest.fixture(scope="session")
def mortal_stack() -> Iterator[RunningStack]:
    """Run another one, whose processes die: that must not disturb what else is tested."""
    stack = RunningStack()
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()

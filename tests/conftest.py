"""What do all tests share? The environment of the settings, and services on first need."""

from collections.abc import Iterator

import django
import pytest
from django.test import override_settings

from tests import services
from tests.stack import RunningStack

services.begin()
# Before the conftests of single folders, which import models.
django.setup()


@pytest.fixture(scope="session")
def embedded_services() -> None:
    """Start PostgreSQL and Valkey; whatever touches the database has asked for this already."""
    services.start()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(embedded_services: None) -> None:
    """Start the services before pytest-django makes its test database."""


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash the passwords of test members quickly; nobody attacks them."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session")
def running_stack() -> Iterator[RunningStack]:
    """Run every process of Kaizen for the session, apart from the tests' own database."""
    stack = RunningStack()
    try:
        stack.start()
        yield stack
    finally:
        stack.remove()

"""A process refuses to start without what it needs, in one sentence."""

import os
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from kaizen.environment import REQUIRED, Environment, database, redis_url
from kaizen.supervisor.state import CLONE
from kaizen.supervisor.throwaway import settings_environment

LONG = "k" * 50


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        Environment({"REDIS_URL": "  "}).demand()
    for name in REQUIRED:
        assert name in str(refusal.value)


def test_nothing_is_missing_where_everything_is_set() -> None:
    Environment(dict.fromkeys(REQUIRED, "x")).demand()


def test_a_short_key_is_refused_without_being_shown() -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        Environment({"KAIZEN_SECRET_KEY": "hunter2"}).key("KAIZEN_SECRET_KEY")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "meaning"),
    [("1", True), ("true", True), ("on", True), ("", False), ("0", False), ("No", False)],
)
def test_switches_are_off_unless_plainly_on(value: str, meaning: bool) -> None:
    assert Environment({"KAIZEN_DEBUG": value}).flag("KAIZEN_DEBUG") is meaning
    assert Environment({}).flag("KAIZEN_DEBUG") is False


def test_a_switch_that_is_neither_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="write 1 for on"):
        Environment({"KAIZEN_DEBUG": "perhaps"}).flag("KAIZEN_DEBUG")


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "0", "１"])
def test_a_number_has_to_be_one(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="not a whole number from 1 up"):
        Environment({"KAIZEN_DB_POOL": value}).number("KAIZEN_DB_POOL", 8, least=1)


def test_a_database_url_is_read_with_its_escapes_and_options() -> None:
    read = database("postgresql://us%40er:p%2Fw@db:6543/na%20me?sslmode=require", pool_size=3)
    assert (read["USER"], read["PASSWORD"], read["HOST"], read["PORT"], read["NAME"]) == (
        "us@er",
        "p/w",
        "db",
        "6543",
        "na me",
    )
    assert read["OPTIONS"]["sslmode"] == "require"
    assert read["OPTIONS"]["pool"]["max_size"] == 3
    assert read["CONN_MAX_AGE"] == 0


@pytest.mark.parametrize(
    "url", ["sqlite:///db", "postgresql://host", "postgresql://host:port/name", "nonsense"]
)
def test_only_postgresql_will_do(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database(url, pool_size=1)


@pytest.mark.parametrize("url", ["", "memory://", "redis://", "http://host"])
def test_only_redis_will_do(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="REDIS_URL"):
        redis_url(url)


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=CLONE,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def production(tmp_path) -> dict[str, str]:
    return settings_environment(tmp_path) | {
        "DATABASE_URL": "postgresql://kaizen:kaizen@127.0.0.1:1/kaizen",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }


def test_a_command_without_settings_says_what_is_missing_and_no_more(tmp_path) -> None:
    environment = production(tmp_path) | {"KAIZEN_AUDIT_KEY": ""}
    done = manage("check", **environment)
    assert done.returncode == 1
    assert done.stderr.startswith("Kaizen needs KAIZEN_AUDIT_KEY in its environment")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"KAIZEN_STATE_DIR": "var"}, "absolute path"),
        ({"KAIZEN_AUDIT_KEY": LONG, "KAIZEN_SECRET_KEY": LONG}, "must differ"),
        ({"DATABASE_URL": "sqlite:///x"}, "PostgreSQL only"),
    ],
)
def test_values_that_cannot_be_right_are_refused(tmp_path, changes, sentence: str) -> None:
    done = manage("check", **(production(tmp_path) | changes))
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_production_settings_pass_every_deployment_check(tmp_path) -> None:
    done = manage("check", "--deploy", "--fail-level", "WARNING", **production(tmp_path))
    assert done.returncode == 0, done.stderr

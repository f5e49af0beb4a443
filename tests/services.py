"""The services that tests run against: nothing starts until a test needs it."""

import atexit
import os
import re

from kaizen.supervisor.throwaway import Throwaway

_services: Throwaway | None = None
_STORES = ("DATABASE_URL", "REDIS_URL")
_exported: list[str] = []


def begin() -> None:
    """Give the settings an environment, before Django looks for one."""
    global _services
    if _services is not None:
        return
    _number_given_counts()
    _exported.extend(name for name in _STORES if not os.environ.get(name))
    _exported.append("DJANGO_SETTINGS_MODULE")
    _services = Throwaway()
    atexit.register(_services.stop)
    os.environ.update(_services.environment())
    # Tests speak plain HTTP on loopback, and never to a real model.
    os.environ["KAIZEN_ALLOWED_HOSTS"] = "127.0.0.1,localhost,testserver"
    os.environ["KAIZEN_ORIGINS"] = "http://testserver,http://localhost,http://127.0.0.1"
    os.environ["KAIZEN_INSECURE_HTTP"] = "1"
    os.environ["KAIZEN_REHEARSAL"] = "1"
    os.environ["KAIZEN_LOG_LEVEL"] = "WARNING"
    for name in ("KAIZEN_MODEL_URL", "KAIZEN_MODEL_NAME", "KAIZEN_MODEL_KEY", "KAIZEN_DEBUG"):
        os.environ.pop(name, None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "kaizen.settings"


def leave_to_workers() -> None:
    """Take back what the processes that this one starts would mistake for given by the caller."""
    for name in _exported:
        os.environ.pop(name, None)


def _number_given_counts() -> None:
    """Give each process of a run that was spread its own numbered database of a given Redis."""
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    if worker is not None and os.environ.get("REDIS_URL"):
        os.environ["REDIS_URL"] = re.sub(r"/\d*$", f"/{worker[0]}", os.environ["REDIS_URL"])


def start() -> None:
    """Start PostgreSQL and Valkey, once for the session."""
    if _services is None:
        raise RuntimeError("tests.services.begin() has not run.")
    _services.start()

"""The services that tests run against: nothing starts until a test needs it."""

import atexit
import os
import re

from kaizen.supervisor.throwaway import Throwaway

_services: Throwaway | None = None
_OURS = "KAIZEN_TESTS_SERVICES"
_STORES = ("DATABASE_URL", "REDIS_URL")


def begin() -> None:
    """Give the settings an environment, before Django looks for one."""
    global _services
    if _services is not None:
        return
    _stand_apart()
    if not any(os.environ.get(name) for name in _STORES):
        os.environ[_OURS] = "1"
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


def _stand_apart() -> None:
    """Keep the processes of one run out of each other's way, where it was spread over several."""
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    if worker is None:
        return
    if os.environ.pop(_OURS, ""):
        # What stands there is the first process's own pair; each starts its own.
        for name in _STORES:
            os.environ.pop(name, None)
    elif os.environ.get("REDIS_URL"):
        # The databases of a server that was given have names by worker; its counts get numbers.
        os.environ["REDIS_URL"] = re.sub(r"/\d*$", f"/{worker[0]}", os.environ["REDIS_URL"])


def start() -> None:
    """Start PostgreSQL and Valkey, once for the session."""
    if _services is None:
        raise RuntimeError("tests.services.begin() has not run.")
    _services.start()

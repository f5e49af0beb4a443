"""Which hosts does this deployment name as its own? Read once from its settings."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings

from apps.domain.internalhosts import InternalHosts, never_public


@functools.cache
def internal_hosts() -> InternalHosts:
    """Return the names and addresses that no model reads."""
    return InternalHosts(_named())


def _named() -> Iterator[str]:
    database = settings.DATABASES["default"]
    options = database.get("OPTIONS", {})
    for given in (database["HOST"], options.get("host", ""), options.get("hostaddr", "")):
        # A server of several names, or the folder of a socket.
        yield from (one.strip() for one in str(given).split(",") if one.strip())
    yield urlsplit(settings.REDIS_URL).hostname or ""
    yield settings.KAIZEN_SANDBOXD_SOCKET
    yield socket.gethostname()
    # These may well be public places, which everybody may name.
    for address in (
        settings.KAIZEN_MODEL_URL,
        settings.KAIZEN_NPM_REGISTRY,
        settings.KAIZEN_AUDIT_HEAD_URL,
    ):
        host = urlsplit(address).hostname or ""
        if host and never_public(host):
            yield host
    yield from settings.KAIZEN_INTERNAL_HOSTS

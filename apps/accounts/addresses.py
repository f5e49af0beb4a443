"""From where does a request come, as far as counting is concerned?"""

from __future__ import annotations

import ipaddress

from django.http import HttpRequest


def address_of(request: HttpRequest | None) -> str:
    """Return the network address; in IPv6 its /64, for one line there holds a whole one."""
    raw = "" if request is None else str(request.META.get("REMOTE_ADDR", ""))
    try:
        address = ipaddress.ip_address(raw)
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)

"""Whom does this machine trust about names in certificates?"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

# Where distributions keep the list, for an OpenSSL that was built to look elsewhere.
_LISTS: Final = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
)


def machine_authorities() -> Path | None:
    """Return the machine's own list (SSL_CERT_FILE, where it is set), or None without one."""
    found = ssl.get_default_verify_paths().cafile
    return Path(found) if found else next((one for one in _LISTS if one.is_file()), None)

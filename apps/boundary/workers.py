"""Under which name does this thread hold a call or a run?"""

from __future__ import annotations

import os
import platform
import threading
import uuid

_PROCESS = uuid.uuid4().hex[:8]


def executor_name() -> str:
    """Return a name that no other thread of any machine holds, dead ones included."""
    thread = threading.get_ident()
    return f"{platform.node()[:40]}:{os.getpid()}:{thread}:{_PROCESS}:{uuid.uuid4().hex[:8]}"

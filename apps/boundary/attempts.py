"""How often was a waiting call taken up? Counted before anything is done for it.

The count commits by itself, so that it stays when what follows breaks. Nobody waits until it is on
disk: a database that loses the last of it gives a call that breaks one more try.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F, UUIDField

from apps.boundary.selectors import may_be_executed
from apps.core.prepared import Change, Given, NotOnDisk
from apps.runs.models import Call


def count_attempt(call_id: Any) -> int:
    """Count one more attempt of a waiting call that may be executed, and return how many it is.

    Nothing is counted, and none returned, where it may not.
    """
    return next((attempts for (attempts,) in _COUNT.run(call=call_id)), 0)


_COUNT = Change(
    lambda: Call.objects.order_by().filter(
        NotOnDisk(), may_be_executed(), pk=Given("call", UUIDField())
    ),
    {"attempts": F("attempts") + 1},
    returning=["attempts"],
)

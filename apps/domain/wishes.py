"""What did a member ask for in plain words that the machinery has to respect?"""

from __future__ import annotations

import re
from typing import Final

_NO_RETRY: Final = re.compile(
    r"\b(?:no|without(?: any)?) (?:more |further )?(?:retry|retries|retrying|second try)\b"
    r"|\b(?:do not|don['’]t|never) (?:retry|try (?:it |this |that )?again)\b"
    r"|\b(?:only )?(?:try|run) (?:it |this |that )?only once\b",
    re.IGNORECASE,
)


def wants_no_retries(text: str) -> bool:
    """Tell whether a message asks that what fails is not tried again."""
    return _NO_RETRY.search(" ".join(text.split())) is not None

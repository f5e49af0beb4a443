"""A view that waits must hold no thread, so nothing above it may be synchronous."""

import pytest
from django.conf import settings
from django.utils.module_loading import import_string


@pytest.mark.parametrize("path", settings.MIDDLEWARE)
def test_every_middleware_is_async_capable(path: str) -> None:
    # One that is not makes Django run the whole view inside a thread that waits for it.
    assert import_string(path).async_capable

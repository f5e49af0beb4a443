"""How are files served without standing in the way of views that wait?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise that also speaks async.

    A middleware that speaks only sync makes Django hold one thread for as long as the view behind
    it runs, and a view that waits for a call waits up to half a minute.
    """

    sync_capable = True
    async_capable = True

    def __init__(
        self,
        get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]],
    ) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Serve a file, or pass the request on."""
        if iscoroutinefunction(self):
            return self._later(request)
        return super().__call__(request)

    async def _later(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        # Looking into folders, as in development, may block; looking into the index does not.
        found = (
            await sync_to_async(self.find_file)(path) if self.autorefresh else self.files.get(path)
        )
        if found is not None:
            served: HttpResponseBase = await sync_to_async(self.serve)(found, request)
            return served
        response: HttpResponseBase = await self.get_response(request)
        return response

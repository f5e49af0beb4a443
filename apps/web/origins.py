"""From which pages may a socket be opened?"""

from __future__ import annotations

from typing import Any
from urllib.parse import ParseResult, parse_qs

from channels.security.websocket import OriginValidator


class OriginOrTicket(OriginValidator):
    """Let in our own pages, and clients that are no browser and bring a ticket.

    Cookies ride along with whatever page opens a socket, so a browser has to say where it comes
    from. A client that sends no origin gets nowhere with cookies: it needs a one-use ticket, which
    no foreign page can have.
    """

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """Pass the socket on, or answer 403 before it is accepted."""
        names = {name for name, _ in scope.get("headers", [])}
        if scope["type"] == "websocket" and b"origin" not in names and ticket_in(scope):
            return await self.application(scope, receive, send)
        return await super().__call__(scope, receive, send)

    def valid_origin(self, parsed_origin: ParseResult | None) -> bool:
        """Compare with the allowed origins; one that cannot be read is not among them."""
        try:
            return bool(super().valid_origin(parsed_origin))
        except ValueError:
            # The port of an origin is parsed late, and may be no number at all.
            return False


def ticket_in(scope: dict[str, Any]) -> str | None:
    """Return the ticket that a socket's address carries."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return query["ticket"][0] if query.get("ticket") else None

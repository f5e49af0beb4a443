"""Which address leads to which socket?"""

from __future__ import annotations

from django.urls import path, re_path

from apps.web.consumers import RoomConsumer, refuse_socket

websocket_routes = [
    path("ws/rooms/<uuid:room_id>/", RoomConsumer.as_asgi()),  # type: ignore[arg-type]
    re_path(r"", refuse_socket),  # type: ignore[arg-type]
]

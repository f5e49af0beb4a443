"""What does the web server call for each request and each socket?"""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import OriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
# The apps must be loaded before anything below imports a model.
http = get_asgi_application()

from django.conf import settings  # noqa: E402

websocket_routes: list[object] = []

application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": OriginValidator(
            AuthMiddlewareStack(URLRouter(websocket_routes)), settings.KAIZEN_ORIGINS
        ),
    }
)

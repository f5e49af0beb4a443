"""What does the web server call for each request and each socket?"""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")
# The apps must be loaded before anything below imports a model.
http = get_asgi_application()

from django.conf import settings  # noqa: E402

from apps.web.origins import OriginOrTicket  # noqa: E402
from apps.web.routing import websocket_routes  # noqa: E402
from kaizen.bodies import BodyLimit  # noqa: E402
from kaizen.door import ProposalDoor  # noqa: E402
from kaizen.garbage import look_seldom  # noqa: E402
from kaizen.waitdoor import WaitDoor  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": BodyLimit(ProposalDoor(WaitDoor(http))),
        "websocket": OriginOrTicket(
            AuthMiddlewareStack(URLRouter(websocket_routes)), settings.KAIZEN_ORIGINS
        ),
    }
)

look_seldom()

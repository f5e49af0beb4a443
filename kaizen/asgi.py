"""What does the web server call for each request and each socket?"""

import gc
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

application = ProtocolTypeRouter(
    {
        "http": BodyLimit(ProposalDoor(http)),
        "websocket": OriginOrTicket(
            AuthMiddlewareStack(URLRouter(websocket_routes)), settings.KAIZEN_ORIGINS
        ),
    }
)

# A request makes thousands of objects that are gone by its end. Looking for cycles among them every
# few hundred finds none, and costs one request in twelve; what was loaded above stays for good.
gc.collect()
gc.freeze()
gc.set_threshold(20_000, 10, 10)

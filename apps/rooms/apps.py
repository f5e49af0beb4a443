from django.apps import AppConfig


class RoomsConfig(AppConfig):
    name = "apps.rooms"
    label = "rooms"
    verbose_name = "Rooms"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.gauges import register_gauges
        from apps.rooms import gauges

        register_gauges(gauges.read)

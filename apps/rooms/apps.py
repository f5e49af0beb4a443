from django.apps import AppConfig


class RoomsConfig(AppConfig):
    name = "apps.rooms"
    label = "rooms"
    verbose_name = "Rooms"
    default_auto_field = "django.db.models.BigAutoField"

from django.apps import AppConfig


class BoundaryConfig(AppConfig):
    name = "apps.boundary"
    label = "boundary"
    verbose_name = "Boundary"
    default_auto_field = "django.db.models.BigAutoField"

from django.apps import AppConfig


class PackagesConfig(AppConfig):
    name = "apps.packages"
    label = "packages"
    verbose_name = "Packages"
    default_auto_field = "django.db.models.BigAutoField"

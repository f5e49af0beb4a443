from django.apps import AppConfig


class GrantsConfig(AppConfig):
    name = "apps.grants"
    label = "grants"
    verbose_name = "Grants"
    default_auto_field = "django.db.models.BigAutoField"

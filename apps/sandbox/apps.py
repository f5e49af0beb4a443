from django.apps import AppConfig


class SandboxConfig(AppConfig):
    name = "apps.sandbox"
    label = "sandbox"
    verbose_name = "Sandbox"
    default_auto_field = "django.db.models.BigAutoField"

"""Register the app of sandboxes with Django."""

from django.apps import AppConfig


class SandboxConfig(AppConfig):
    """Running untrusted code, as the rest of Kaizen sees it."""

    name = "apps.sandbox"
    label = "sandbox"
    verbose_name = "Sandbox"

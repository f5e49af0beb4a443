"""Register the app of sandboxes with Django."""

from django.apps import AppConfig


class SandboxConfig(AppConfig):
    """Running untrusted code, as the rest of Kaizen sees it."""

    name = "apps.sandbox"
    label = "sandbox"
    verbose_name = "Sandbox"

    def ready(self) -> None:
        """Let probes hear how the sandbox is."""
        from apps.core.health import register_part
        from apps.sandbox.health import sandbox_part

        register_part(sandbox_part)

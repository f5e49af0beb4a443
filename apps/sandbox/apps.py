"""Register the app of sandboxes with Django."""

from django.apps import AppConfig


class SandboxConfig(AppConfig):
    """Running untrusted code, as the rest of Kaizen sees it."""

    name = "apps.sandbox"
    label = "sandbox"
    verbose_name = "Sandbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let probes hear how the sandbox is, and the collector what is still held."""
        from apps.core.blobs import register_references
        from apps.core.health import register_part
        from apps.sandbox.health import sandbox_part
        from apps.sandbox.memory import held_blobs

        register_part(sandbox_part)
        register_references(held_blobs)

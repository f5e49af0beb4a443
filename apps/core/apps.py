from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "apps.core"
    label = "core"
    verbose_name = "Core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let addresses name what may stand in them, and tell probes of the workers."""
        from apps.core import converters
        from apps.core.health import register_part, workers_part

        converters.register()
        register_part(workers_part)

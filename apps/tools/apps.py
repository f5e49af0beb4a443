from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "apps.tools"
    label = "tools"
    verbose_name = "Tools"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.packages.names import register_reserved_names
        from apps.tools.registry import AGENT_LOOP_TOOL_NAMES

        register_reserved_names(lambda: AGENT_LOOP_TOOL_NAMES)

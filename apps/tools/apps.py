from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "apps.tools"
    label = "tools"
    verbose_name = "Tools"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.health import register_part
        from apps.packages.names import register_reserved_names
        from apps.tools.credentials import register_adapter
        from apps.tools.declared import Connections
        from apps.tools.health import tools_part
        from apps.tools.registry import AGENT_LOOP_TOOL_NAMES

        register_adapter(Connections())
        register_part(tools_part)
        register_reserved_names(lambda: AGENT_LOOP_TOOL_NAMES)

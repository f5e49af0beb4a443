from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "apps.audit"
    label = "audit"
    verbose_name = "Audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.audit import gauges
        from apps.audit.refusals import record_api_refusal
        from apps.core.api.problems import on_refusal
        from apps.core.gauges import register_gauges

        on_refusal(record_api_refusal)
        register_gauges(gauges.read)

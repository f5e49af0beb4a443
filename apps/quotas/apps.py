from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "apps.quotas"
    label = "quotas"
    verbose_name = "Quotas"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.gauges import register_gauges
        from apps.core.queue import register_queue
        from apps.quotas import gauges
        from apps.quotas.selectors import left_behind

        register_queue(
            name="reservations",
            task="quotas.close_left_behind",
            argument="reservation_id",
            ready=left_behind,
        )
        register_gauges(gauges.read)

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    name = "apps.broker"
    label = "broker"
    verbose_name = "Outside systems"
    default_auto_field = "django.db.models.BigAutoField"

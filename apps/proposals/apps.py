from django.apps import AppConfig


class ProposalsConfig(AppConfig):
    name = "apps.proposals"
    label = "proposals"
    verbose_name = "Proposals"
    default_auto_field = "django.db.models.BigAutoField"

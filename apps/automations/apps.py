from django.apps import AppConfig


class AutomationsConfig(AppConfig):
    name = "apps.automations"
    label = "automations"
    verbose_name = "Automations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.automations.selectors import due_automations
        from apps.automations.starting import START_TASK, may_begin
        from apps.core.queue import register_queue
        from apps.runs.causes import register_gate

        register_queue(
            name="automations", task=START_TASK, argument="automation_id", ready=due_automations
        )
        register_gate(may_begin)

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "apps.runs"
    label = "runs"
    verbose_name = "Runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.blobs import register_references
        from apps.core.gauges import register_gauges
        from apps.core.queue import register_queue
        from apps.runs import gauges
        from apps.runs.bodies import held_blobs
        from apps.runs.selectors import ready_runs, waiting_inputs
        from apps.runs.services import START_TASK, TURN_TASK

        register_queue(name="runs", task=TURN_TASK, argument="run_id", ready=ready_runs)
        register_queue(name="inputs", task=START_TASK, argument="input_id", ready=waiting_inputs)
        register_references(held_blobs)
        register_gauges(gauges.read)

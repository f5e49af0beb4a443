from django.apps import AppConfig


class BoundaryConfig(AppConfig):
    name = "apps.boundary"
    label = "boundary"
    verbose_name = "Boundary"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.approvals.pauses import overdue_pauses
        from apps.boundary.children import calls_of_ended_children
        from apps.boundary.lost import lost_runs
        from apps.boundary.selectors import overdue_requests, ready_calls
        from apps.boundary.steps.approve import EXECUTE_TASK
        from apps.core.queue import register_queue

        register_queue(name="calls", task=EXECUTE_TASK, argument="call_id", ready=ready_calls)
        register_queue(
            name="overdue_approvals",
            task="boundary.expire_request",
            argument="approval_id",
            ready=overdue_requests,
        )
        register_queue(
            name="overdue_pauses",
            task="boundary.expire_pause",
            argument="pause_id",
            ready=overdue_pauses,
        )
        register_queue(
            name="children",
            task="boundary.settle_child",
            argument="call_id",
            ready=calls_of_ended_children,
        )
        register_queue(
            name="lost_runs", task="boundary.end_run", argument="run_id", ready=lost_runs
        )

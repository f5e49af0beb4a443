from celery import shared_task

from apps.boundary import children, inner, lost, pausing, pipeline, services, workers


@shared_task(name="boundary.execute_call")
def execute_call(call_id: str) -> None:
    """Carry out one call that waited."""
    pipeline.execute_waiting(
        call_id=call_id, executor=workers.executor_name(), inner=inner.InnerCalls
    )


@shared_task(name="boundary.expire_request")
def expire_request(approval_id: str) -> None:
    """Close one question that ran out of time."""
    services.expire_request(approval_id=approval_id)


@shared_task(name="boundary.expire_pause")
def expire_pause(pause_id: str) -> None:
    """Fail one call whose answer did not come in time."""
    pausing.expire_pause(pause_id=pause_id)


@shared_task(name="boundary.settle_child")
def settle_child(call_id: str) -> None:
    """End one call whose child run has ended."""
    children.settle_child(call_id=call_id)


@shared_task(name="boundary.end_run")
def end_run(run_id: str) -> None:
    """End one run that nobody can go on with."""
    lost.end_lost_run(run_id=run_id)

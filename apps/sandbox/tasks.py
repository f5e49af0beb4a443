"""Which bells do workspaces, kernels and sessions ring?"""

from celery import shared_task
from django.conf import settings

from apps.sandbox import keeping, kernel_ends, leases, session_ends


@shared_task(name="sandbox.release_left_behind")
def release_left_behind(workspace_id: str) -> None:
    """Release one workspace whose holder has gone."""
    leases.release_left_behind(workspace_id=workspace_id)


@shared_task(name="sandbox.forget_workspaces")
def forget_workspaces() -> None:
    """Delete the workspaces that nobody has used for long."""
    keeping.forget_workspaces(days=settings.KAIZEN_WORKSPACE_DAYS)


@shared_task(name="sandbox.close_session")
def close_session(session_id: str) -> None:
    """End one session that is to end."""
    session_ends.close_left_behind(session_id=session_id)


@shared_task(name="sandbox.end_kernel")
def end_kernel(kernel_id: str) -> None:
    """End one kernel that is to end."""
    kernel_ends.end_kernel(kernel_id=kernel_id)

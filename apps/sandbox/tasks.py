"""Which bells do workspaces ring?"""

from celery import shared_task

from apps.sandbox import leases


@shared_task(name="sandbox.release_left_behind")
def release_left_behind(workspace_id: str) -> None:
    """Release one workspace whose holder has gone."""
    leases.release_left_behind(workspace_id=workspace_id)

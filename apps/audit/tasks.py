import structlog
from celery import shared_task
from django.conf import settings
from django.db import connection

from apps.audit import retention, sealing

log = structlog.get_logger(__name__)


@shared_task(name="audit.seal")
def seal() -> None:
    """Seal what was written since the last seal."""
    sealing.seal_what_waits()


@shared_task(name="audit.ensure_months")
def ensure_months() -> None:
    """Make the partitions of the coming months; rows of a missing one go to the default."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT audit_ensure_month((current_date + make_interval(months => n))::date)"
            " FROM generate_series(1, 2) AS n"
        )


@shared_task(name="audit.retain")
def retain() -> None:
    """Drop the months that the deployment's policy does not keep, where it has one."""
    if not settings.KAIZEN_AUDIT_KEEP_MONTHS:
        return
    try:
        retention.retain(settings.KAIZEN_AUDIT_KEEP_MONTHS)
    except retention.NotRetained as refusal:
        # Nothing was dropped, and an administrator has to look at why.
        log.warning("audit_not_retained", why=str(refusal))

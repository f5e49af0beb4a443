from celery import shared_task
from django.db import connection

from apps.audit import sealing


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

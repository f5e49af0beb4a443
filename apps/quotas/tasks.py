from celery import shared_task

from apps.quotas import services


@shared_task(name="quotas.close_left_behind")
def close_left_behind(reservation_id: str) -> None:
    """Close one reservation whose worker has gone."""
    services.close_left_behind(reservation_id=reservation_id)


@shared_task(name="quotas.forget_old")
def forget_old() -> None:
    """Throw away reservations and meters of long ago."""
    services.forget_old()

from django.apps import AppConfig


class ProposalsConfig(AppConfig):
    name = "apps.proposals"
    label = "proposals"
    verbose_name = "Proposals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.blobs import register_references
        from apps.core.queue import register_queue
        from apps.proposals.selectors import held_blobs, ready_tests
        from apps.proposals.services import TEST_TASK

        register_references(held_blobs)
        register_queue(name="proposal_tests", task=TEST_TASK, argument="test_id", ready=ready_tests)

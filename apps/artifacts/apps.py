from django.apps import AppConfig


class ArtifactsConfig(AppConfig):
    name = "apps.artifacts"
    label = "artifacts"
    verbose_name = "Artifacts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.artifacts.selectors import held_blobs
        from apps.core.blobs import register_references

        register_references(held_blobs)

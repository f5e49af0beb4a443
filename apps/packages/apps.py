from django.apps import AppConfig


class PackagesConfig(AppConfig):
    name = "apps.packages"
    label = "packages"
    verbose_name = "Packages"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from apps.core.blobs import register_references
        from apps.packages.selectors import held_blobs

        register_references(held_blobs)

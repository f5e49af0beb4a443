"""Register the app of sandboxes with Django."""

from django.apps import AppConfig


class SandboxConfig(AppConfig):
    """Running untrusted code, as the rest of Kaizen sees it."""

    name = "apps.sandbox"
    label = "sandbox"
    verbose_name = "Sandbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Tell probes how the sandbox is, the collector what is held, the sweep what was left."""
        from apps.core.blobs import register_references
        from apps.core.health import register_part
        from apps.core.queue import register_queue
        from apps.sandbox import contents, memory
        from apps.sandbox.health import sandbox_closely, sandbox_part
        from apps.sandbox.kernel_ends import END_TASK, kernels_to_end
        from apps.sandbox.leases import left_behind
        from apps.sandbox.session_ends import END_TASK as CLOSE_TASK
        from apps.sandbox.session_ends import left_behind as sessions_left_behind

        register_part(sandbox_part, close=sandbox_closely)
        register_references(memory.held_blobs)
        register_references(contents.held_blobs)
        register_queue(
            name="workspace_leases",
            task="sandbox.release_left_behind",
            argument="workspace_id",
            ready=left_behind,
        )
        register_queue(
            name="kernels_to_end", task=END_TASK, argument="kernel_id", ready=kernels_to_end
        )
        register_queue(
            name="tool_sessions",
            task=CLOSE_TASK,
            argument="session_id",
            ready=sessions_left_behind,
        )

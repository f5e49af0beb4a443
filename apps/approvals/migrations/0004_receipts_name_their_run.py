from django.db import migrations


class Migration(migrations.Migration):
    """Receipts that were given before name the run of their call."""

    dependencies = [("approvals", "0003_modes_seconds_pauses_previews")]

    operations = [
        migrations.RunSQL(
            "UPDATE approvals_receipt SET run_id = runs_call.run_id"
            " FROM runs_call WHERE runs_call.id = approvals_receipt.call_id",
            migrations.RunSQL.noop,
        )
    ]

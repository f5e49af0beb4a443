from django.db import migrations


def forget(apps, schema_editor):
    """Until now no schedule or webhook started anything, so such allowances allowed nothing.

    Kept by their names alone, they could come to allow what nobody meant.
    """
    allowances = apps.get_model("approvals", "UnattendedAllowance")
    allowances.objects.exclude(trigger="mail").delete()


class Migration(migrations.Migration):
    dependencies = [("approvals", "0005_receipts_always_name_their_run")]

    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]

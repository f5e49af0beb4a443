import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("approvals", "0004_receipts_name_their_run")]

    operations = [
        migrations.AlterField(
            model_name="receipt",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="runs.run"
            ),
        )
    ]

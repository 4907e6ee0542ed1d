from __future__ import annotations

from django.db import migrations, models

REASONS = ("start", "step", "pause", "call", "failure", "end", "label", "restore", "fork", "migrate", "edit")


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0011_end_after_a_step")]

    operations = [
        migrations.AlterField(
            model_name="checkpoint",
            name="reason",
            field=models.CharField(choices=[(reason, reason) for reason in REASONS], max_length=12),
        ),
    ]

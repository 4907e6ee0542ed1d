"""Remember of which requests people were told; those that are open already are no news."""

from django.db import migrations, models
from django.db.models import F


def know_all(apps, schema_editor):
    rows = apps.get_model("checkpoints", "HumanRequest").objects.using(schema_editor.connection.alias)
    rows.filter(closed=None, answered=None).update(told=F("created"))


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0005_open_requests_by_age")]

    operations = [
        migrations.AddField("humanrequest", "told", models.DateTimeField(null=True)),
        migrations.RunPython(know_all, migrations.RunPython.noop),
        migrations.AddIndex(
            "humanrequest",
            models.Index(
                fields=["created"],
                condition=models.Q(told__isnull=True, closed__isnull=True, answered__isnull=True),
                name="request_untold",
            ),
        ),
    ]

"""The headline of requests as a column, and an index of open ones that lists can live on."""

from __future__ import annotations

from django.conf import settings
from django.db import migrations, models

import checkpoints.columns


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0004_what_people_do"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(model_name="humanrequest", name="request_open"),
        migrations.AddField(
            model_name="humanrequest",
            name="subject",
            field=models.GeneratedField(
                db_persist=True,
                expression=checkpoints.columns.Headline("card"),
                output_field=models.TextField(null=True),
            ),
        ),
        migrations.AddIndex(
            model_name="humanrequest",
            index=checkpoints.columns.CoveringIndex(
                condition=models.Q(("answered__isnull", True), ("closed__isnull", True)),
                covered=[
                    "workflow",
                    "step",
                    "kind",
                    "due",
                    "risk",
                    "assignee",
                    "asked",
                    "settles",
                    "run",
                    "by",
                    "not_by",
                    "subject",
                    "closed",
                    "answered",
                ],
                fields=["created", "id"],
                name="request_open",
            ),
        ),
    ]

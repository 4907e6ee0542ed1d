from django.db import migrations, models

from checkpoints.database.schema import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0024_rollups'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='humanrequest',
            index=models.Index(condition=models.Q(('answered__isnull', True), ('closed__isnull', True), ('stuck__gt', '')), fields=['created', 'id'], name='request_stuck'),
        ),
    ]

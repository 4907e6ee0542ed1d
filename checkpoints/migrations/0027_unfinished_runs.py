from django.db import migrations, models

from checkpoints.database.schema import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0026_decision_days'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(condition=models.Q(('finished__isnull', True)), fields=['phase', 'workflow', 'finished', 'for_workers'], name='run_unfinished'),
        ),
    ]

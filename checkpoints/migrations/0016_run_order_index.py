from django.db import migrations, models
from django.db.models.functions import Coalesce

from checkpoints.database.schema import AddIndexConcurrently, RemoveIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0015_run_order'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(models.OrderBy(models.F('priority'), descending=True), Coalesce('ready_at', 'created'), models.F('workflow'), condition=models.Q(('for_workers', True), ('phase', 'ready')), name='run_to_take'),
        ),
        RemoveIndexConcurrently(
            model_name='run',
            name='run_due',
        ),
    ]

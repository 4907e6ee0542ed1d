from django.db import migrations, models

from checkpoints.database.schema import AddIndexConcurrently, RemoveIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0020_published_workflow'),
    ]

    operations = [
        RemoveIndexConcurrently(
            model_name='auditentry',
            name='audit_by_request',
        ),
        AddIndexConcurrently(
            model_name='auditentry',
            index=models.Index(fields=['request', 'n'], name='audit_by_request'),
        ),
    ]

from django.db import migrations

from checkpoints.database.schema import DropPatternIndexes


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0022_consultation'),
    ]

    operations = [
        # The palette looks for runs, requests and checkpoints by the beginning of their id.
        DropPatternIndexes(kept=['run.id', 'humanrequest.id', 'checkpoint.id']),
    ]

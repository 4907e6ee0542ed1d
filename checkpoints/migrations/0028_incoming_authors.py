import checkpoints.models.fields
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('checkpoints', '0027_unfinished_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='incominghook',
            name='authors',
            field=checkpoints.models.fields.JsonField(null=True),
        ),
    ]

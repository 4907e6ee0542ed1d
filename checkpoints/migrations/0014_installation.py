import checkpoints.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('checkpoints', '0013_run_for_workers'),
    ]

    operations = [
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('key', checkpoints.models.fields.CharField(max_length=200)),
            ],
        ),
    ]

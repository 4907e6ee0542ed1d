from django.db import migrations, models



class Migration(migrations.Migration):

    dependencies = [
        ('checkpoints', '0023_pattern_indexes'),
    ]

    operations = [
        migrations.CreateModel(
            name='TallyRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('span', models.SmallIntegerField()),
                ('hour', models.IntegerField()),
                ('workflow', models.CharField(blank=True, max_length=200)),
                ('data', models.TextField()),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('span', 'hour', 'workflow'), name='one_rollup_per_span'),
                ],
            },
        ),
    ]

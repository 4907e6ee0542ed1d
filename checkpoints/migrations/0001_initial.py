"""Every table at once. What there was before 0.1.0, in 30 migrations, is replaced: a database that has them all has this.

A database that has only some of them is refused: see ``checkpoints.database.schema``.
"""

import checkpoints.models.fields
import django.db.models.deletion
import django.db.models.functions.comparison
from django.conf import settings
from django.db import migrations, models, router

FILLFACTOR = {'run': 80, 'claim': 80, 'effect': 85, 'humanrequest': 85, 'notice': 85, 'tally': 85}
"""How full PostgreSQL makes the pages of tables whose rows are updated: a new version then fits into the page of the
old one, and no index is written."""
SEARCHED = 'run', 'humanrequest', 'checkpoint'
"""The palette looks for these by the beginning of their id."""


def arrange_rows(apps, schema_editor):
    """On PostgreSQL, keep the cards of requests beside their rows, so that lists pass over small rows, and leave room
    for updates."""
    _set(apps, schema_editor, 'humanrequest', 'toast_tuple_target = 256')
    for name, percent in FILLFACTOR.items():
        _set(apps, schema_editor, name, f'fillfactor = {percent}')


def _set(apps, schema_editor, name, parameter):
    model = apps.get_model('checkpoints', name)
    if schema_editor.connection.vendor == 'postgresql' and router.allow_migrate_model(schema_editor.connection.alias, model):
        schema_editor.execute(f'ALTER TABLE {schema_editor.quote_name(model._meta.db_table)} SET ({parameter})')


def leave_out_pattern_indexes(apps, schema_editor):
    """Take back the indexes for ``LIKE`` that Django is about to make on PostgreSQL beside every unique text and
    reference, but those that are searched by a beginning. Each costs a write per row, and nothing reads it."""
    searched = [apps.get_model('checkpoints', name)._meta.db_table for name in SEARCHED]
    schema_editor.deferred_sql = [
        statement
        for statement in schema_editor.deferred_sql
        if not str(statement.parts.get('name', '')).strip('"').endswith('_like')
        or any(statement.references_column(table, 'id') for table in searched)
    ]


def sign_head(apps, schema_editor):
    """Give the audit chain a signed end before it has a beginning."""
    heads = apps.get_model('checkpoints', 'AuditHead').objects.using(schema_editor.connection.alias)
    heads.create(pk=1, n=0, hash='', signature=checkpoints.models.fields.current_keyring().sign('head', '0', ''))


class Migration(migrations.Migration):

    replaces = [
        ('checkpoints', '0002_answer_others'),
        ('checkpoints', '0003_notice_workflow'),
        ('checkpoints', '0004_run_titles'),
        ('checkpoints', '0005_run_ended'),
        ('checkpoints', '0006_run_to_note'),
        ('checkpoints', '0007_decisions'),
        ('checkpoints', '0008_push_subscription'),
        ('checkpoints', '0009_tokens'),
        ('checkpoints', '0010_webhook_deliveries'),
        ('checkpoints', '0011_incoming_webhooks'),
        ('checkpoints', '0012_follow_ups'),
        ('checkpoints', '0013_run_for_workers'),
        ('checkpoints', '0014_installation'),
        ('checkpoints', '0015_run_order'),
        ('checkpoints', '0016_run_order_index'),
        ('checkpoints', '0017_worker_serves'),
        ('checkpoints', '0018_leader'),
        ('checkpoints', '0019_indexes'),
        ('checkpoints', '0020_published_workflow'),
        ('checkpoints', '0021_audit_by_request'),
        ('checkpoints', '0022_consultation'),
        ('checkpoints', '0023_pattern_indexes'),
        ('checkpoints', '0024_rollups'),
        ('checkpoints', '0025_stuck_requests'),
        ('checkpoints', '0026_decision_days'),
        ('checkpoints', '0027_unfinished_runs'),
        ('checkpoints', '0028_incoming_authors'),
        ('checkpoints', '0029_answer_digest'),
        ('checkpoints', '0030_content_keys'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditHead',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('n', models.BigIntegerField(default=0)),
                ('hash', models.CharField(blank=True, max_length=64)),
                ('signature', models.CharField(blank=True, default='', max_length=80)),
            ],
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('workflow', models.CharField(max_length=200)),
                ('version', models.CharField(blank=True, max_length=64)),
                ('engine', models.CharField(default='native', max_length=40)),
                ('title', models.CharField(blank=True, max_length=300)),
                ('phase', models.CharField(choices=[('ready', 'ready'), ('waiting', 'waiting'), ('sleeping', 'sleeping'), ('retrying', 'retrying'), ('paused', 'paused'), ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled')], default='ready', max_length=12)),
                ('input', checkpoints.models.fields.JsonField(null=True)),
                ('output', checkpoints.models.fields.JsonField(null=True)),
                ('error', checkpoints.models.fields.JsonField(null=True)),
                ('seq', models.BigIntegerField(default=0)),
                ('n', models.BigIntegerField(default=0)),
                ('epoch', models.BigIntegerField(default=0)),
                ('attempts', models.IntegerField(default=0)),
                ('wake_at', models.DateTimeField(null=True)),
                ('retry', checkpoints.models.fields.JsonField(null=True)),
                ('family', models.CharField(max_length=200)),
                ('forked_from', models.CharField(max_length=200, null=True)),
                ('acted_by', models.CharField(blank=True, max_length=150)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField()),
                ('updated', models.DateTimeField()),
                ('finished', models.DateTimeField(null=True)),
                ('start_key', models.CharField(max_length=200, null=True, unique=True)),
                ('altered', models.CharField(blank=True, db_default='', default='', max_length=60)),
                ('requesters', checkpoints.models.fields.JsonField(null=True)),
                ('noted', models.BooleanField(db_default=False, default=False)),
                ('ending', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('ending_as', models.CharField(db_default='cancelled', default='cancelled', max_length=12)),
                ('listed', models.BooleanField(db_default=False, default=False)),
                ('own_title', models.TextField(null=True)),
                ('summary', models.TextField(null=True)),
                ('follows', models.CharField(max_length=200, null=True)),
                ('follows_n', models.BigIntegerField(null=True)),
                ('thread', models.CharField(max_length=200, null=True)),
                ('for_workers', models.BooleanField(db_default=True, default=True)),
                ('priority', models.SmallIntegerField(db_default=0, default=0)),
                ('ready_at', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['-created', '-id'], name='run_newest'), models.Index(fields=['workflow', '-created', '-id'], name='run_by_workflow'), models.Index(fields=['phase', '-created', '-id'], name='run_by_phase'), models.Index(condition=models.Q(('wake_at__isnull', False)), fields=['wake_at'], name='run_to_wake'), models.Index(fields=['family'], name='run_by_family'), models.Index(fields=['created_by', '-created', '-id'], name='run_by_person'), models.Index(fields=['version', '-created', '-id'], name='run_by_version'), models.Index(condition=models.Q(('altered__gt', '')), fields=['-created', '-id'], name='run_altered'), models.Index(condition=models.Q(('forked_from__isnull', False)), fields=['-created', '-id'], name='run_forked'), models.Index(condition=models.Q(('finished__isnull', False)), fields=['finished'], name='run_finished'), models.Index(condition=models.Q(('listed', False)), fields=['id'], name='run_to_list'), models.Index(condition=models.Q(('ending', ''), _negated=True), fields=['id'], name='run_to_end'), models.Index(condition=models.Q(('noted', False), ('phase', 'failed')), fields=['phase', 'id'], name='run_to_note'), models.Index(condition=models.Q(('finished__isnull', False)), fields=['phase', 'finished', 'workflow'], name='run_ended'), models.Index(condition=models.Q(('thread__isnull', False)), fields=['thread', '-created', '-id'], name='run_by_thread'), models.Index(models.OrderBy(models.F('priority'), descending=True), django.db.models.functions.comparison.Coalesce('ready_at', 'created'), models.F('workflow'), condition=models.Q(('for_workers', True), ('phase', 'ready')), name='run_to_take'), models.Index(condition=models.Q(('finished__isnull', True)), fields=['phase', 'workflow', 'finished', 'for_workers'], name='run_unfinished')],
            },
        ),
        migrations.CreateModel(
            name='Preference',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='preference', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('data', checkpoints.models.fields.JsonField(default=dict)),
                ('looks', checkpoints.models.fields.JsonField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='SecondFactor',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='second_factor', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('secret', models.TextField()),
                ('created', models.DateTimeField()),
                ('confirmed', models.DateTimeField(null=True)),
                ('last_step', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Shown',
            fields=[
                ('id', models.CharField(max_length=130, primary_key=True, serialize=False)),
                ('request', models.CharField(db_index=True, max_length=36)),
                ('kind', models.CharField(max_length=10)),
                ('body', models.TextField()),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SignInTries',
            fields=[
                ('key', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('began', models.DateTimeField()),
                ('count', models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='TallyMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.BigIntegerField(default=0)),
                ('at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='WorkerBeat',
            fields=[
                ('id', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('started', models.DateTimeField()),
                ('seen', models.DateTimeField()),
                ('runs', models.IntegerField(default=0)),
                ('late', models.FloatField(default=0.0)),
                ('serves', checkpoints.models.fields.JsonField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Absence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='absences', to=settings.AUTH_USER_MODEL)),
                ('delegate', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stands_in_for', to=settings.AUTH_USER_MODEL)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('n', models.BigIntegerField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('right', models.CharField(blank=True, max_length=300)),
                ('verb', models.CharField(max_length=40)),
                ('workflow', models.CharField(blank=True, max_length=200)),
                ('run', models.CharField(blank=True, max_length=200)),
                ('request', models.CharField(blank=True, max_length=36)),
                ('facts', checkpoints.models.fields.JsonField(default=dict)),
                ('prev', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
                ('signature', models.CharField(blank=True, default='', max_length=80)),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'n'], name='audit_by_run'), models.Index(fields=['actor', 'n'], name='audit_by_actor'), models.Index(fields=['workflow', 'n'], name='audit_by_workflow'), models.Index(fields=['request', 'n'], name='audit_by_request')],
            },
        ),
        migrations.CreateModel(
            name='Chunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('family', models.CharField(max_length=200)),
                ('hash', models.CharField(max_length=64)),
                ('data', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('family', 'hash'), name='one_row_per_chunk')],
            },
        ),
        migrations.CreateModel(
            name='Claim',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='claim', serialize=False, to='checkpoints.run')),
                ('token', models.CharField(max_length=36, unique=True)),
                ('worker', models.CharField(max_length=200)),
                ('epoch', models.BigIntegerField()),
                ('ttl', models.FloatField(default=30.0)),
                ('expires', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='HumanRequest',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='requests', to='checkpoints.run')),
                ('key', models.CharField(max_length=300)),
                ('workflow', models.CharField(max_length=200)),
                ('step', models.CharField(max_length=200)),
                ('kind', models.CharField(max_length=40)),
                ('card', checkpoints.models.fields.JsonField(default=dict)),
                ('answer_schema', checkpoints.models.fields.JsonField(default=dict)),
                ('by', checkpoints.models.fields.JsonField(default=list)),
                ('not_by', checkpoints.models.fields.JsonField(default=list)),
                ('due', models.DateTimeField(null=True)),
                ('created', models.DateTimeField()),
                ('answered', models.DateTimeField(null=True)),
                ('closed', models.DateTimeField(null=True)),
                ('closed_as', models.CharField(blank=True, max_length=12)),
                ('replaces', models.CharField(max_length=36, null=True)),
                ('suggestion', checkpoints.models.fields.JsonField(null=True)),
                ('policy', checkpoints.models.fields.JsonField(default=dict)),
                ('alarm', models.DateTimeField(null=True)),
                ('risk', models.SmallIntegerField(db_default=0, default=0)),
                ('settles', models.DateTimeField(null=True)),
                ('asked', models.DateTimeField(null=True)),
                ('told', models.DateTimeField(null=True)),
                ('assignee', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='assigned', to=settings.AUTH_USER_MODEL)),
                ('stuck', models.CharField(blank=True, db_default='', default='', max_length=12)),
                ('subject', models.GeneratedField(db_persist=True, expression=checkpoints.models.fields.Headline('card'), output_field=models.TextField(null=True))),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('alarm__isnull', False), ('answered__isnull', True), ('closed__isnull', True)), fields=['alarm'], name='request_alarm'), checkpoints.models.fields.CoveringIndex(condition=models.Q(('answered__isnull', True), ('closed__isnull', True)), covered=['workflow', 'step', 'kind', 'due', 'risk', 'assignee', 'asked', 'settles', 'run', 'by', 'not_by', 'subject', 'closed', 'answered'], fields=['created', 'id'], name='request_open'), models.Index(condition=models.Q(('answered__isnull', True), ('closed__isnull', True), ('told__isnull', True)), fields=['created'], name='request_untold'), models.Index(condition=models.Q(('answered__isnull', False)), fields=['answered', 'id'], name='request_answered'), models.Index(condition=models.Q(('answered__isnull', True), ('closed__isnull', True), ('stuck__gt', '')), fields=['created', 'id'], name='request_stuck')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed__isnull', True)), fields=('run', 'key'), name='one_pending_request_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='checkpoints.run')),
                ('n', models.BigIntegerField()),
                ('parent', models.CharField(max_length=200, null=True)),
                ('workflow', models.CharField(max_length=200)),
                ('version', models.CharField(max_length=64)),
                ('engine', models.CharField(max_length=40)),
                ('step', models.CharField(max_length=200, null=True)),
                ('reason', models.CharField(choices=[('start', 'start'), ('step', 'step'), ('pause', 'pause'), ('call', 'call'), ('failure', 'failure'), ('end', 'end'), ('label', 'label'), ('restore', 'restore'), ('fork', 'fork'), ('follow_up', 'follow_up'), ('migrate', 'migrate'), ('edit', 'edit')], max_length=12)),
                ('label', models.CharField(max_length=200, null=True)),
                ('created', models.DateTimeField()),
                ('format', models.IntegerField()),
                ('size', models.BigIntegerField(default=0)),
                ('intact', models.BooleanField(db_column='clean', default=True)),
                ('seq', models.BigIntegerField(default=0)),
                ('flaw', models.TextField(blank=True, db_default='', default='')),
                ('waiting', models.IntegerField(db_default=0, default=0)),
                ('facts', models.TextField(null=True)),
                ('body', models.TextField()),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('waiting__gt', 0)), fields=['run', 'n'], name='checkpoint_waiting'), models.Index(condition=models.Q(('label__isnull', False)), fields=['run', 'n'], name='checkpoint_labelled')],
                'constraints': [models.UniqueConstraint(fields=('run', 'n'), name='one_checkpoint_per_n')],
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('request', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='checkpoints.humanrequest')),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('kind', models.CharField(default='comment', max_length=10)),
                ('text', models.TextField()),
                ('mentions', checkpoints.models.fields.JsonField(default=list)),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['request', 'at'], name='comment_by_request')],
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('request', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='checkpoints.humanrequest')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('fields', checkpoints.models.fields.JsonField(default=dict)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('request', 'user'), name='one_draft_per_person')],
            },
        ),
        migrations.CreateModel(
            name='Effect',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='effects', to='checkpoints.run')),
                ('key', models.CharField(max_length=300)),
                ('step', models.CharField(max_length=200)),
                ('name', models.CharField(max_length=300)),
                ('once', models.BooleanField(default=False)),
                ('state', models.CharField(max_length=12)),
                ('result', checkpoints.models.fields.JsonField(null=True)),
                ('n', models.BigIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'key'], name='effect_by_key')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='checkpoints.run')),
                ('seq', models.BigIntegerField()),
                ('kind', models.CharField(max_length=60)),
                ('step', models.CharField(max_length=200, null=True)),
                ('data', checkpoints.models.fields.JsonField(default=dict)),
                ('at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'seq'), name='one_event_per_seq')],
            },
        ),
        migrations.CreateModel(
            name='Grant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to=settings.AUTH_USER_MODEL)),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='auth.group')),
                ('workflow', models.CharField(default='*', max_length=200)),
                ('role', models.CharField(choices=[('viewer', 'viewer'), ('reviewer', 'reviewer'), ('author', 'author'), ('operator', 'operator'), ('admin', 'admin')], max_length=10)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('group__isnull', True), ('user__isnull', False)), models.Q(('group__isnull', False), ('user__isnull', True)), _connector='OR'), name='grant_to_a_person_or_a_group')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('person', models.CharField(max_length=150)),
                ('key', models.CharField(max_length=64)),
                ('verb', models.CharField(max_length=40)),
                ('digest', models.CharField(max_length=64)),
                ('result', checkpoints.models.fields.JsonField(default=dict)),
                ('at', models.DateTimeField(db_index=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('person', 'key'), name='one_command_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('user', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL)),
                ('kind', models.CharField(max_length=20)),
                ('channel', models.CharField(max_length=12)),
                ('target', models.CharField(blank=True, max_length=36)),
                ('request', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='checkpoints.humanrequest')),
                ('payload', checkpoints.models.fields.JsonField(default=dict)),
                ('once', models.CharField(max_length=200, null=True, unique=True)),
                ('created', models.DateTimeField()),
                ('due', models.DateTimeField()),
                ('attempts', models.IntegerField(default=0)),
                ('sent', models.DateTimeField(null=True)),
                ('given_up', models.DateTimeField(null=True)),
                ('read', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('workflow', models.CharField(blank=True, db_default='', default='', max_length=200)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('given_up__isnull', True), ('sent__isnull', True)), fields=['due'], name='notice_to_send'), models.Index(fields=['user', 'channel', '-id'], name='notice_of_person'), models.Index(fields=['created'], name='notice_by_time'), models.Index(condition=models.Q(('read__isnull', True)), fields=['user', 'channel', '-id'], name='notice_unread')],
            },
        ),
        migrations.CreateModel(
            name='Presence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('request', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='presences', to='checkpoints.humanrequest')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('since', models.DateTimeField()),
                ('seen', models.DateTimeField()),
                ('typing', models.DateTimeField(null=True)),
                ('taken', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('request', 'user'), name='one_presence_per_person')],
            },
        ),
        migrations.CreateModel(
            name='RecoveryCode',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='recovery_codes', to=settings.AUTH_USER_MODEL)),
                ('code_hash', models.CharField(max_length=64)),
                ('used', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'code_hash'), name='one_row_per_recovery_code')],
            },
        ),
        migrations.CreateModel(
            name='Reply',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('request', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='checkpoints.humanrequest')),
                ('by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('via', models.CharField(max_length=20)),
                ('right', models.CharField(blank=True, max_length=300)),
                ('acting_for', models.CharField(blank=True, max_length=150)),
                ('value', checkpoints.models.fields.JsonField(null=True)),
                ('verdict', models.CharField(max_length=40)),
                ('stands', models.CharField(max_length=12)),
                ('reason', models.TextField(blank=True, default='')),
                ('seen', models.CharField(blank=True, max_length=64)),
                ('at', models.DateTimeField()),
                ('settles', models.DateTimeField(null=True)),
                ('undone', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('settles__isnull', False), ('undone__isnull', True)), fields=['settles'], name='reply_to_settle'), models.Index(fields=['by', '-at'], name='reply_by_person'), models.Index(condition=models.Q(('undone__isnull', False)), fields=['request', 'by'], name='reply_undone')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('undone__isnull', True)), fields=('request', 'by'), name='one_reply_per_person')],
            },
        ),
        migrations.CreateModel(
            name='RunFact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='facts', to='checkpoints.run')),
                ('name', models.CharField(max_length=200)),
                ('text', models.CharField(max_length=200)),
                ('number', models.FloatField(null=True)),
                ('created', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('number__isnull', False)), fields=['name', 'number', '-created', '-run'], name='fact_by_number'), models.Index(fields=['name', 'text', '-created', '-run'], name='fact_by_text', opclasses=['varchar_ops', 'varchar_pattern_ops', 'timestamptz_ops', 'varchar_ops']), models.Index(fields=['run', 'name', 'text', 'number'], name='fact_by_run')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('page', models.CharField(max_length=20)),
                ('name', models.CharField(max_length=80)),
                ('query', models.CharField(max_length=1000)),
                ('shared', models.BooleanField(default=False)),
                ('created', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'page', 'name'), name='one_view_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('workflow', models.CharField(db_index=True, max_length=200)),
                ('name', models.CharField(max_length=100)),
                ('cron', models.CharField(max_length=200)),
                ('zone', models.CharField(default='UTC', max_length=64)),
                ('message', checkpoints.models.fields.JsonField(null=True)),
                ('missed', models.CharField(default='once', max_length=10)),
                ('overlap', models.CharField(db_default='allow', default='allow', max_length=10)),
                ('paused', models.BooleanField(default=False)),
                ('problem', models.CharField(blank=True, max_length=500)),
                ('next_at', models.DateTimeField(null=True)),
                ('last_at', models.DateTimeField(null=True)),
                ('last_run', models.CharField(max_length=200, null=True)),
                ('passed_at', models.DateTimeField(null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('authors', checkpoints.models.fields.JsonField(default=list)),
                ('created', models.DateTimeField()),
                ('updated', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('next_at__isnull', False)), fields=['next_at'], name='schedule_next')],
                'constraints': [models.UniqueConstraint(fields=('workflow', 'name'), name='one_schedule_per_name')],
            },
        ),
        migrations.CreateModel(
            name='Signal',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='signals', to='checkpoints.run')),
                ('name', models.CharField(max_length=200)),
                ('value', checkpoints.models.fields.JsonField(null=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('taken', models.CharField(max_length=36, null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('taken__isnull', True)), fields=['run', 'name', 'id'], name='signal_untaken')],
            },
        ),
        migrations.CreateModel(
            name='SignInLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('secret_hash', models.CharField(max_length=64, unique=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField(auto_now_add=True)),
                ('expires', models.DateTimeField()),
                ('used', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('measure', models.CharField(max_length=40)),
                ('workflow', models.CharField(max_length=200)),
                ('step', models.CharField(blank=True, max_length=200)),
                ('label', models.CharField(blank=True, max_length=200)),
                ('bucket', models.IntegerField(default=0)),
                ('count', models.BigIntegerField(default=0)),
                ('total', models.FloatField(default=0.0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('measure', 'hour', 'workflow', 'step', 'label', 'bucket'), name='one_tally_per_bucket')],
                'indexes': [models.Index(fields=['hour'], name='tally_by_hour')],
            },
        ),
        migrations.CreateModel(
            name='UsedLink',
            fields=[
                ('nonce', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('request', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='checkpoints.humanrequest')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('url', models.CharField(max_length=500)),
                ('secret', models.TextField()),
                ('workflow', models.CharField(default='*', max_length=200)),
                ('kinds', checkpoints.models.fields.JsonField(default=list)),
                ('active', models.BooleanField(default=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created', models.DateTimeField()),
                ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='callbacks', to='checkpoints.run')),
                ('values', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('active', True), ('run', None)), fields=['workflow'], name='webhook_active')],
            },
        ),
        migrations.CreateModel(
            name='WorkflowVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('workflow', models.CharField(max_length=200)),
                ('version', models.CharField(max_length=64)),
                ('description', checkpoints.models.fields.JsonField()),
                ('created', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('workflow', 'version'), name='one_row_per_workflow_version')],
            },
        ),
        migrations.CreateModel(
            name='Answer',
            fields=[
                ('request', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='answer', serialize=False, to='checkpoints.humanrequest')),
                ('value', checkpoints.models.fields.JsonField(null=True)),
                ('verdict', models.CharField(blank=True, max_length=40)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('acting_for', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('others', models.TextField(blank=True, db_default='', default='')),
                ('digest', models.CharField(blank=True, db_default='', default='', max_length=40)),
            ],
        ),
        migrations.CreateModel(
            name='Bulk',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('verb', models.CharField(max_length=20)),
                ('facts', checkpoints.models.fields.JsonField(default=dict)),
                ('runs', checkpoints.models.fields.JsonField(default=list)),
                ('done', models.IntegerField(default=0)),
                ('acted', models.IntegerField(default=0)),
                ('refused', checkpoints.models.fields.JsonField(default=dict)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('at', models.DateTimeField()),
                ('finished', models.DateTimeField(null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('finished__isnull', True)), fields=['by', 'at'], name='bulk_unfinished')],
            },
        ),
        migrations.CreateModel(
            name='PushSubscription',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('data', checkpoints.models.fields.JsonField()),
                ('name', models.CharField(max_length=80)),
                ('created', models.DateTimeField()),
                ('sent', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_subscriptions', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='ServiceAccount',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='service_account', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('about', models.CharField(blank=True, max_length=300)),
                ('created', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Token',
            fields=[
                ('id', models.CharField(max_length=12, primary_key=True, serialize=False)),
                ('secret_hash', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=80)),
                ('rights', checkpoints.models.fields.JsonField()),
                ('workflows', checkpoints.models.fields.JsonField()),
                ('created', models.DateTimeField()),
                ('expires', models.DateTimeField(null=True)),
                ('used', models.DateTimeField(null=True)),
                ('revoked', models.DateTimeField(null=True)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('revoked__isnull', True)), fields=('owner', 'name'), name='one_token_per_name_and_owner')],
            },
        ),
        migrations.CreateModel(
            name='DeliveryAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('ms', models.IntegerField()),
                ('status', models.IntegerField(null=True)),
                ('answer', models.TextField(blank=True, default='')),
                ('error', models.CharField(blank=True, max_length=500)),
                ('notice', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tries', to='checkpoints.notice')),
            ],
        ),
        migrations.CreateModel(
            name='IncomingHook',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('workflow', models.CharField(max_length=200)),
                ('signal', models.CharField(blank=True, max_length=100)),
                ('run_at', models.CharField(blank=True, max_length=300)),
                ('mapping', checkpoints.models.fields.JsonField()),
                ('scheme', models.CharField(max_length=12)),
                ('header', models.CharField(blank=True, max_length=80)),
                ('secret', models.TextField()),
                ('key_at', models.CharField(blank=True, max_length=300)),
                ('active', models.BooleanField(default=True)),
                ('created', models.DateTimeField()),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='incoming_hooks', to=settings.AUTH_USER_MODEL)),
                ('authors', checkpoints.models.fields.JsonField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='IncomingDelivery',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('key', models.CharField(max_length=80, null=True)),
                ('status', models.IntegerField()),
                ('outcome', models.CharField(max_length=12)),
                ('run', models.CharField(blank=True, max_length=200)),
                ('why', models.TextField(blank=True, default='')),
                ('size', models.IntegerField()),
                ('body', models.TextField(blank=True, default='')),
                ('hook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='checkpoints.incominghook')),
            ],
            options={
                'indexes': [models.Index(fields=['hook', '-id'], name='received_by_hook'), models.Index(fields=['at'], name='received_at')],
                'constraints': [models.UniqueConstraint(fields=('hook', 'key'), name='one_accepted_per_key')],
            },
        ),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('key', models.CharField(default='', max_length=200)),
                ('content_keys', checkpoints.models.fields.JsonField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Leader',
            fields=[
                ('code', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('worker', models.CharField(max_length=200)),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='PublishedWorkflow',
            fields=[
                ('workflow', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('version', models.CharField(max_length=64)),
                ('hash', models.CharField(max_length=64)),
                ('document', checkpoints.models.fields.JsonField()),
                ('seen', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Consultation',
            fields=[
                ('id', models.CharField(max_length=36, primary_key=True, serialize=False)),
                ('workflow', models.CharField(max_length=200)),
                ('version', models.CharField(max_length=64)),
                ('ability', models.CharField(max_length=40)),
                ('given', checkpoints.models.fields.JsonField()),
                ('created', models.DateTimeField()),
                ('worker', models.CharField(blank=True, default='', max_length=200)),
                ('reply', checkpoints.models.fields.JsonField(null=True)),
            ],
        ),
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
                'constraints': [models.UniqueConstraint(fields=('span', 'hour', 'workflow'), name='one_rollup_per_span')],
            },
        ),
        migrations.CreateModel(
            name='DecisionRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
                ('workflow', models.CharField(blank=True, max_length=200)),
                ('count', models.BigIntegerField(default=0)),
                ('reversed', models.BigIntegerField(default=0)),
                ('groups', models.CharField(max_length=64)),
                ('data', models.TextField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('since', 'workflow'), name='one_decision_rollup_per_day')],
            },
        ),
        migrations.RunPython(arrange_rows, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(leave_out_pattern_indexes, migrations.RunPython.noop, elidable=False),
        migrations.RunPython(sign_head, migrations.RunPython.noop, elidable=False),
    ]

from django.conf import settings
from django.db import migrations, models, router
from django.db.models import CASCADE, PROTECT

from checkpoints.database.schema import (
    AddIndexConcurrently,
    DropFieldIndexConcurrently,
    RemoveIndexConcurrently,
)

FILLFACTOR = {'run': 80, 'claim': 80, 'effect': 85, 'humanrequest': 85, 'notice': 85, 'tally': 85}
"""How full PostgreSQL makes the pages of tables whose rows are updated: a new version then fits into the page of the
old one, and no index is written."""


def leave_room(apps, schema_editor):
    _set_fillfactor(apps, schema_editor, FILLFACTOR)


def leave_none(apps, schema_editor):
    _set_fillfactor(apps, schema_editor, dict.fromkeys(FILLFACTOR, 100))


def _set_fillfactor(apps, schema_editor, chosen):
    if schema_editor.connection.vendor != 'postgresql':
        return
    for name, percent in chosen.items():
        model = apps.get_model('checkpoints', name)
        if router.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            schema_editor.execute(f'ALTER TABLE {table} SET (fillfactor = {percent})')


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('checkpoints', '0018_leader'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='reply',
            index=models.Index(fields=['by', '-at'], name='reply_by_person'),
        ),
        AddIndexConcurrently(
            model_name='reply',
            index=models.Index(condition=models.Q(('undone__isnull', False)), fields=['request', 'by'], name='reply_undone'),
        ),
        DropFieldIndexConcurrently(
            model_name='reply',
            name='by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(fields=['user', 'channel', '-id'], name='notice_of_person'),
        ),
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(fields=['created'], name='notice_by_time'),
        ),
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(condition=models.Q(('read__isnull', True)), fields=['user', 'channel', '-id'], name='notice_unread'),
        ),
        RemoveIndexConcurrently(
            model_name='notice',
            name='notice_by_user',
        ),
        DropFieldIndexConcurrently(
            model_name='notice',
            name='user',
            field=models.ForeignKey(db_index=False, null=True, on_delete=CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL),
        ),
        AddIndexConcurrently(
            model_name='auditentry',
            index=models.Index(condition=models.Q(('request__gt', '')), fields=['request', 'n'], name='audit_by_request'),
        ),
        AddIndexConcurrently(
            model_name='bulk',
            index=models.Index(condition=models.Q(('finished__isnull', True)), fields=['by', 'at'], name='bulk_unfinished'),
        ),
        RemoveIndexConcurrently(
            model_name='bulk',
            name='bulk_to_do',
        ),
        AddIndexConcurrently(
            model_name='tally',
            index=models.Index(fields=['hour'], name='tally_by_hour'),
        ),
        migrations.RunPython(leave_room, leave_none),
    ]

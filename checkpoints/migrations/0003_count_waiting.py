"""Count the questions that were pending at each checkpoint written before that was a column."""

from django.db import migrations

from checkpoints.chunks import decode, hashes_in, hashes_in_chunk, verified
from checkpoints.errors import Damaged


def count_waiting(apps, schema_editor):
    alias = schema_editor.connection.alias
    rows = apps.get_model("checkpoints", "Checkpoint").objects.using(alias)
    chunks = apps.get_model("checkpoints", "Chunk").objects.using(alias)
    for row in rows.select_related("run").iterator(200):
        try:
            content = decode(row.body, read_chunks(chunks.filter(family=row.run.family), row.body))
        except Damaged:
            continue
        if content.get("requests"):
            rows.filter(pk=row.pk).update(waiting=len(content["requests"]))


def read_chunks(chunks, root):
    found, wanted = {}, hashes_in(root)
    while wanted:
        now, wanted = wanted[:500], wanted[500:]
        level = verified((key, bytes(data)) for key, data in chunks.filter(hash__in=now).values_list("hash", "data"))
        found |= level
        wanted += [key for data in level.values() for key in hashes_in_chunk(data) if key not in found]
    return found


class Migration(migrations.Migration):

    dependencies = [
        ("checkpoints", "0002_find_and_flaw"),
    ]

    operations = [
        migrations.RunPython(count_waiting, migrations.RunPython.noop),
    ]

"""On PostgreSQL, keep the cards of requests beside their rows, so that lists pass over small rows.

Rows written before stay as they are; requests that are open now are written anew.
"""

from __future__ import annotations

from django.db import migrations


def keep_apart(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    table = schema_editor.quote_name(apps.get_model("checkpoints", "HumanRequest")._meta.db_table)
    schema_editor.execute(f"ALTER TABLE {table} SET (toast_tuple_target = 256)")
    # A new value, though an equal one: what is not written anew stays where it is.
    text = "card = (card::text || '')::json, answer_schema = (answer_schema::text || '')::json"
    schema_editor.execute(f"UPDATE {table} SET {text} WHERE closed IS NULL AND answered IS NULL")


def keep_together(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        table = schema_editor.quote_name(apps.get_model("checkpoints", "HumanRequest")._meta.db_table)
        schema_editor.execute(f"ALTER TABLE {table} RESET (toast_tuple_target)")


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0006_tell_of_requests")]

    operations = [migrations.RunPython(keep_apart, keep_together)]

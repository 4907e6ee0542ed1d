"""Replies, talk, presence, absence, notices and the audit chain; what policies need of a request."""

import checkpoints.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


RISKS = {"low": 1, "medium": 2, "high": 3}


def copy_risk(apps, schema_editor):
    rows = apps.get_model("checkpoints", "HumanRequest").objects.using(schema_editor.connection.alias)
    for row in rows.filter(closed=None).only("id", "card").iterator(200):
        card = row.card if isinstance(row.card, dict) else {}
        if card.get("risk") in RISKS:
            rows.filter(pk=row.pk).update(risk=RISKS[card["risk"]])


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("checkpoints", "0003_count_waiting"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Absence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("n", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=150)),
                ("right", models.CharField(blank=True, max_length=300)),
                ("verb", models.CharField(max_length=40)),
                ("workflow", models.CharField(blank=True, max_length=200)),
                ("run", models.CharField(blank=True, max_length=36)),
                ("request", models.CharField(blank=True, max_length=36)),
                ("facts", checkpoints.fields.JsonField(default=dict)),
                ("prev", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("n", models.BigIntegerField(default=0)),
                ("hash", models.CharField(blank=True, max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("kind", models.CharField(default="comment", max_length=10)),
                ("text", models.TextField()),
                ("mentions", checkpoints.fields.JsonField(default=list)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Draft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fields", checkpoints.fields.JsonField(default=dict)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=20)),
                ("channel", models.CharField(max_length=12)),
                ("target", models.CharField(blank=True, max_length=36)),
                ("payload", checkpoints.fields.JsonField(default=dict)),
                ("once", models.CharField(max_length=200, null=True, unique=True)),
                ("created", models.DateTimeField()),
                ("due", models.DateTimeField()),
                ("attempts", models.IntegerField(default=0)),
                ("sent", models.DateTimeField(null=True)),
                ("given_up", models.DateTimeField(null=True)),
                ("read", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
            ],
        ),
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="preference",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("data", checkpoints.fields.JsonField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Presence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("seen", models.DateTimeField()),
                ("typing", models.DateTimeField(null=True)),
                ("taken", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Reply",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("via", models.CharField(max_length=20)),
                ("right", models.CharField(blank=True, max_length=300)),
                ("acting_for", models.CharField(blank=True, max_length=150)),
                ("value", checkpoints.fields.JsonField(null=True)),
                ("verdict", models.CharField(max_length=40)),
                ("stands", models.CharField(max_length=12)),
                ("reason", models.TextField(blank=True, default="")),
                ("seen", models.CharField(blank=True, max_length=64)),
                ("at", models.DateTimeField()),
                ("settles", models.DateTimeField(null=True)),
                ("undone", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("page", models.CharField(max_length=20)),
                ("name", models.CharField(max_length=80)),
                ("query", models.CharField(max_length=1000)),
                ("shared", models.BooleanField(default=False)),
                ("created", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Shown",
            fields=[
                ("id", models.CharField(max_length=130, primary_key=True, serialize=False)),
                ("request", models.CharField(db_index=True, max_length=36)),
                ("kind", models.CharField(max_length=10)),
                ("body", models.TextField()),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="UsedLink",
            fields=[
                ("nonce", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=80)),
                ("url", models.CharField(max_length=500)),
                ("secret", models.TextField()),
                ("workflow", models.CharField(default="*", max_length=200)),
                ("kinds", checkpoints.fields.JsonField(default=list)),
                ("active", models.BooleanField(default=True)),
                ("created", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="alarm",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="asked",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="assignee",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="assigned",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="policy",
            field=checkpoints.fields.JsonField(default=dict),
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="risk",
            field=models.SmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="humanrequest",
            name="settles",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="humanrequest",
            index=models.Index(
                condition=models.Q(("alarm__isnull", False), ("answered__isnull", True), ("closed__isnull", True)),
                fields=["alarm"],
                name="request_alarm",
            ),
        ),
        migrations.AddField(
            model_name="absence",
            name="delegate",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="stands_in_for", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="absence",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="absences", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["run", "n"], name="audit_by_run"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["actor", "n"], name="audit_by_actor"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["workflow", "n"], name="audit_by_workflow"),
        ),
        migrations.AddField(
            model_name="comment",
            name="by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="comment",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="comments", to="checkpoints.humanrequest"
            ),
        ),
        migrations.AddField(
            model_name="draft",
            name="request",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="drafts",
                to="checkpoints.humanrequest",
            ),
        ),
        migrations.AddField(
            model_name="draft",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="request",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="checkpoints.humanrequest"
            ),
        ),
        migrations.AddField(
            model_name="notice",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="notices",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="presence",
            name="request",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="presences",
                to="checkpoints.humanrequest",
            ),
        ),
        migrations.AddField(
            model_name="presence",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="reply",
            name="by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="reply",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="replies", to="checkpoints.humanrequest"
            ),
        ),
        migrations.AddField(
            model_name="savedview",
            name="owner",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="usedlink",
            name="request",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="checkpoints.humanrequest"
            ),
        ),
        migrations.AddField(
            model_name="usedlink",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="webhook",
            name="created_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddIndex(
            model_name="comment",
            index=models.Index(fields=["request", "at"], name="comment_by_request"),
        ),
        migrations.AddConstraint(
            model_name="draft",
            constraint=models.UniqueConstraint(fields=("request", "user"), name="one_draft_per_person"),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(
                condition=models.Q(("given_up__isnull", True), ("sent__isnull", True)),
                fields=["due"],
                name="notice_to_send",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(fields=["user", "-created"], name="notice_by_user"),
        ),
        migrations.AddConstraint(
            model_name="presence",
            constraint=models.UniqueConstraint(fields=("request", "user"), name="one_presence_per_person"),
        ),
        migrations.AddIndex(
            model_name="reply",
            index=models.Index(
                condition=models.Q(("settles__isnull", False), ("undone__isnull", True)),
                fields=["settles"],
                name="reply_to_settle",
            ),
        ),
        migrations.AddConstraint(
            model_name="reply",
            constraint=models.UniqueConstraint(
                condition=models.Q(("undone__isnull", True)), fields=("request", "by"), name="one_reply_per_person"
            ),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(fields=("owner", "page", "name"), name="one_view_per_name"),
        ),
        migrations.RunPython(copy_risk, migrations.RunPython.noop, elidable=True),
    ]

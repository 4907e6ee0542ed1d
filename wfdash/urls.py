"""Every address of the dashboard, in one list."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path, register_converter

from wfdash.api.router import api
from wfdash.pages import (
    act,
    addresses,
    audit,
    away,
    batch,
    checkpoint,
    deadline,
    evidence,
    health,
    inbox,
    links,
    metrics,
    notices,
    numbers,
    request,
    run,
    runevents,
    runs,
    runstate,
    scheduleform,
    schedules,
    settings,
    signin,
    skew,
    talk,
    together,
    views,
    workflows,
)

register_converter(addresses.IdConverter, "id")
register_converter(addresses.VerbConverter, "verb")
register_converter(addresses.KindConverter, "kind")
CHECKPOINT = "runs/<id:run_id>/checkpoints/<id:checkpoint_id>/"

urlpatterns = [
    path("", inbox.inbox, name="inbox"),
    path("focus/", inbox.focus, name="focus"),
    path("inbox/words/", views.words, name="inbox-words"),
    path("views/", views.views, name="views"),
    path("views/<id:view_id>/", views.view, name="view"),
    path("batch/result/", batch.result, name="batch-result"),
    path("batch/undo/", batch.undo, name="batch-undo"),
    path("requests/<id:request_id>/alike/", batch.alike, name="alike"),
    path("requests/undo/", together.undo_all, name="undo-all"),
    path("requests/<id:request_id>/", request.request, name="request"),
    path("requests/<id:request_id>/evidence/<int:number>/", evidence.evidence, name="evidence"),
    path("requests/<id:request_id>/undo/", together.undo, name="undo"),
    path("requests/<id:request_id>/draft/", together.draft, name="draft"),
    path("requests/<id:request_id>/here/", together.here, name="here"),
    path("requests/<id:request_id>/take/", together.take, name="take"),
    path("requests/<id:request_id>/assign/", together.assign, name="assign"),
    path("requests/<id:request_id>/deadline/", deadline.deadline, name="deadline"),
    path("requests/<id:request_id>/people/", together.people, name="people"),
    path("requests/<id:request_id>/talk/", talk.talk, name="talk"),
    path("requests/<id:request_id>/amend/", talk.amend, name="amend"),
    path("away/", away.away, name="away"),
    path("away/<int:absence_id>/end/", away.back, name="away-end"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<id:run_id>/", run.run, name="run"),
    path("runs/<id:run_id>/events/", runevents.events, name="run-events"),
    path("runs/<id:run_id>/events.jsonl", runevents.export, name="run-events-export"),
    path("runs/<id:run_id>/state/", runstate.state, name="run-state"),
    path("runs/<id:run_id>/checkpoints/", run.history, name="run-history"),
    path("runs/<id:run_id>/migrate/", skew.migrate, name="run-migrate"),
    path("runs/<id:run_id>/override/", skew.override, name="run-override"),
    path("runs/<id:run_id>/record/", audit.record, name="run-record"),
    path("runs/<id:run_id>/cancel/", act.cancel, name="run-cancel"),
    path("runs/<id:run_id>/<verb:verb>/", act.act, name="run-act"),
    path(CHECKPOINT, checkpoint.checkpoint, name="checkpoint"),
    path(f"{CHECKPOINT}restore/", checkpoint.restore, name="restore"),
    path(f"{CHECKPOINT}fork/", checkpoint.fork, name="fork"),
    path("numbers/", numbers.numbers, name="numbers"),
    path("audit/", audit.acts, name="audit"),
    path("audit/<int:n>/", audit.act, name="audit-entry"),
    path("audit/<int:n>/shown/", audit.shown, name="audit-shown"),
    path("audit/export.<kind:kind>", audit.export, name="audit-export"),
    path("notices/", notices.notices, name="notices"),
    path("notices/<id:notice_id>/", notices.notice, name="notice"),
    path("settings/", settings.settings, name="settings"),
    path("settings/webhooks/", settings.webhooks, name="webhooks"),
    path("settings/webhooks/<id:webhook_id>/", settings.webhook, name="webhook"),
    path("answer/<str:token>/", links.answer_link, name="answer-link"),
    path("workflows/", workflows.workflows, name="workflows"),
    path("workflows/<path:name>/", workflows.workflow, name="workflow"),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/new/", scheduleform.new, name="schedule-new"),
    path("schedules/next/", schedules.coming, name="schedule-next"),
    path("schedules/<id:schedule_id>/", schedules.schedule, name="schedule"),
    path("schedules/<id:schedule_id>/edit/", scheduleform.edit, name="schedule-edit"),
    path("sign-in/", signin.sign_in, name="sign-in"),
    path("sign-in/<str:secret>/", signin.sign_in_link, name="sign-in-link"),
    path("sign-out/", signin.sign_out, name="sign-out"),
    path("api/", api.urls),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    path("admin/", admin.site.urls),
]

handler400 = "wfdash.pages.errors.bad_request"
handler403 = "wfdash.pages.errors.forbidden"
handler404 = "wfdash.pages.errors.not_found"
handler500 = "wfdash.pages.errors.server_error"

"""Every address of the dashboard, for ``include("wfdash.urls")``: their names are in the namespace ``wfdash``."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, register_converter
from django.views.generic import RedirectView

from wfdash.api.document import all_kinds
from wfdash.api.router import api, api_document
from wfdash.pages.account import (
    api_reference,
    first_steps,
    notifications,
    out_of_office,
    provider,
    push,
    saved_views,
    second_factor,
    security,
    settings,
    signin,
    tokens,
)
from wfdash.pages.audit import entries
from wfdash.pages.checkpoints import checkpoint, compare, edit
from wfdash.pages.hooks import incoming, receive, webhooks
from wfdash.pages.people import access, groups, person
from wfdash.pages.people import listing as people_listing
from wfdash.pages.requests import (
    answer_links,
    batch,
    collaboration,
    comments,
    deadline,
    decisions,
    evidence,
    inbox,
    request,
    selected,
)
from wfdash.pages.runs import actions, delete, events, logs, migrate, replay, run, signal, state
from wfdash.pages.runs.listing import bulk, export, page
from wfdash.pages.runs.starting import follow_up
from wfdash.pages.schedules import form, listing
from wfdash.pages.site import health, list_page, looks, metrics, search, url_converters
from wfdash.pages.site.embedding.views import independent
from wfdash.pages.site.files import app, static_files
from wfdash.pages.statistics import operations, retention, statistics
from wfdash.pages.workflows import catalogue

register_converter(url_converters.IdConverter, "wfdash_id")
register_converter(url_converters.NameConverter, "wfdash_name")
register_converter(url_converters.VerbConverter, "wfdash_verb")
register_converter(url_converters.KindConverter, "wfdash_kind")
CHECKPOINT = "runs/<wfdash_id:run_id>/checkpoints/<wfdash_id:checkpoint_id>/"

app_name = "wfdash"
_patterns: list[URLPattern | URLResolver] = [
    path("", inbox.inbox, name="inbox"),
    path("focus/", inbox.focus, name="focus"),
    path("inbox/words/", list_page.suggestions, {"name": "inbox"}, name="inbox-words"),
    path("lists/density/", looks.density, name="density"),
    path("views/counts/", saved_views.counts, name="view-counts"),
    path("views/", saved_views.save_view, name="views"),
    path("views/<wfdash_id:view_id>/", saved_views.view, name="view"),
    path("batch/result/", batch.result, name="batch-result"),
    path("batch/undo/", batch.undo, name="batch-undo"),
    path("selected/", selected.selected, name="selected"),
    path("requests/<wfdash_id:request_id>/alike/", batch.similar, name="alike"),
    path("requests/undo/", collaboration.undo_all, name="undo-all"),
    path("requests/<wfdash_id:request_id>/", request.request, name="request"),
    path("requests/<wfdash_id:request_id>/evidence/<int:number>/", evidence.evidence, name="evidence"),
    path("requests/<wfdash_id:request_id>/undo/", collaboration.undo, name="undo"),
    path("requests/<wfdash_id:request_id>/draft/", collaboration.draft, name="draft"),
    path("requests/<wfdash_id:request_id>/here/", collaboration.presence, name="here"),
    path("requests/<wfdash_id:request_id>/take/", collaboration.take, name="take"),
    path("requests/<wfdash_id:request_id>/assign/", collaboration.assign, name="assign"),
    path("requests/<wfdash_id:request_id>/deadline/", deadline.deadline, name="deadline"),
    path("requests/<wfdash_id:request_id>/people/", collaboration.people, name="people"),
    path("requests/<wfdash_id:request_id>/talk/", comments.talk, name="talk"),
    path("requests/<wfdash_id:request_id>/amend/", comments.amend, name="amend"),
    path("decisions/", decisions.decisions, name="decisions"),
    path("decisions/words/", list_page.suggestions, {"name": "decisions"}, name="decisions-words"),
    path("away/", out_of_office.out_of_office, name="away"),
    path("away/<int:absence_id>/end/", out_of_office.end_absence, name="away-end"),
    path("runs/", page.runs, name="runs"),
    path("runs/words/", list_page.suggestions, {"name": "runs"}, name="runs-words"),
    path("runs/columns/", page.columns, name="runs-columns"),
    path("runs/export/", export.export, name="runs-export"),
    path("runs/bulk/", bulk.bulk, name="runs-bulk"),
    path("runs/bulk/<wfdash_id:bulk_id>/", bulk.bulk_result, name="runs-told"),
    path("runs/<wfdash_id:run_id>/", run.run, name="run"),
    path("runs/<wfdash_id:run_id>/events/", events.events, name="run-events"),
    path("runs/<wfdash_id:run_id>/events.jsonl", events.export, name="run-events-export"),
    path("runs/<wfdash_id:run_id>/logs/", logs.logs, name="run-logs"),
    path("runs/<wfdash_id:run_id>/logs.txt", logs.download, name="run-logs-text"),
    path("runs/<wfdash_id:run_id>/state/", state.state, name="run-state"),
    path("runs/<wfdash_id:run_id>/checkpoints/", run.history, name="run-history"),
    path("runs/<wfdash_id:run_id>/migrate/", migrate.migrate, name="run-migrate"),
    path("runs/<wfdash_id:run_id>/override/", migrate.override, name="run-override"),
    path("runs/<wfdash_id:run_id>/record/", entries.record, name="run-record"),
    path("runs/<wfdash_id:run_id>/cancel/", actions.cancel, name="run-cancel"),
    path("runs/<wfdash_id:run_id>/delete/", delete.delete_run, name="run-delete"),
    path("runs/<wfdash_id:run_id>/follow-up/", follow_up.follow_up, name="run-follow-up"),
    path("runs/<wfdash_id:run_id>/signal/", signal.signal, name="run-signal"),
    path("runs/<wfdash_id:run_id>/<wfdash_verb:verb>/", actions.perform, name="run-act"),
    path(CHECKPOINT, checkpoint.checkpoint, name="checkpoint"),
    path(f"{CHECKPOINT}restore/", checkpoint.restore, name="restore"),
    path(f"{CHECKPOINT}fork/", checkpoint.fork, name="fork"),
    path(f"{CHECKPOINT}edit/", edit.edit, name="edit"),
    path(f"{CHECKPOINT}delete/", delete.delete_checkpoint, name="checkpoint-delete"),
    path(f"{CHECKPOINT}label/", checkpoint.label, name="label"),
    path("runs/<wfdash_id:run_id>/compare/", compare.compare, name="compare"),
    path("runs/<wfdash_id:run_id>/at/<int:seq>/", replay.replay, name="replay"),
    path("people/", people_listing.people_list, name="people-list"),
    path("people/invite/", people_listing.invite, name="person-invite"),
    path("people/access/", access.access, name="access"),
    path("people/groups/", groups.groups, name="groups"),
    path("people/groups/<wfdash_id:name>/", groups.group, name="group"),
    path("people/<wfdash_name:name>/", person.person, name="person"),
    path("operations/", operations.operations, name="operations"),
    path("operations/retention/", retention.retention, name="retention"),
    path("numbers/", statistics.statistics, name="numbers"),
    path("audit/", entries.acts, name="audit"),
    path("audit/words/", list_page.suggestions, {"name": "audit"}, name="audit-words"),
    path("audit/<int:n>/", entries.act, name="audit-entry"),
    path("audit/<int:n>/shown/", entries.shown, name="audit-shown"),
    path("audit/export.<wfdash_kind:kind>", entries.export, name="audit-export"),
    path("notices/", notifications.notifications, name="notices"),
    path("notices/<wfdash_id:notice_id>/", notifications.notification, name="notice"),
    path("search/", search.search, name="search"),
    path("getting-started/", first_steps.first_steps, name="first-steps"),
    path("settings/", settings.settings, name="settings"),
    path("settings/account/", security.account, name="account"),
    path("settings/tokens/", tokens.tokens, name="tokens"),
    path("settings/second-factor/", second_factor.second_factor, name="second-factor"),
    path("settings/push/", push.push, name="push"),
    path("settings/push/<wfdash_id:browser_id>/", push.push_browser, name="push-browser"),
    path("settings/webhooks/", webhooks.webhook_list, name="webhooks"),
    path("settings/webhooks/<wfdash_id:webhook_id>/", webhooks.webhook, name="webhook"),
    path("settings/incoming/", incoming.incoming_list, name="incoming-list"),
    path("settings/incoming/new/", incoming.new_incoming, name="incoming-new"),
    path("settings/incoming/<wfdash_id:hook_id>/", incoming.incoming, name="incoming"),
    path("settings/incoming/<wfdash_id:hook_id>/edit/", incoming.edit_incoming, name="incoming-edit"),
    path("hooks/<wfdash_id:hook_id>", receive.receive_hook, name="receive-hook"),
    path("answer/<str:token>/", answer_links.answer_link, name="answer-link"),
    # Not below workflows/: a workflow may have any name.
    path("catalogue/words/", list_page.suggestions, {"name": "workflows"}, name="workflows-words"),
    path("catalogue/reloaded/", catalogue.reloaded, name="workflows-reloaded"),
    path("workflows/", catalogue.workflows, name="workflows"),
    path("workflows/<path:name>/", catalogue.workflow, name="workflow"),
    path("schedules/", listing.schedules, name="schedules"),
    path("schedules/words/", list_page.suggestions, {"name": "schedules"}, name="schedules-words"),
    path("schedules/new/", form.new, name="schedule-new"),
    path("schedules/next/", listing.upcoming, name="schedule-next"),
    path("schedules/<wfdash_id:schedule_id>/", listing.schedule, name="schedule"),
    path("schedules/<wfdash_id:schedule_id>/edit/", form.edit, name="schedule-edit"),
    path("sign-in/", signin.sign_in, name="sign-in"),
    path("sign-in/code/", second_factor.sign_in_code, name="sign-in-code"),
    path("sign-in/passkey/", signin.sign_in_passkey, name="sign-in-passkey"),
    path("sign-in/provider/", provider.begin_at_provider, name="sign-in-provider"),
    path("sign-in/provider/callback/", provider.back_from_provider, name="sign-in-callback"),
    path("sign-in/<str:secret>/", signin.sign_in_link, name="sign-in-link"),
    path("sign-out/", signin.sign_out, name="sign-out"),
    path("api/", RedirectView.as_view(pattern_name="wfdash:api-docs"), name="api"),
    path("api/v1/", RedirectView.as_view(pattern_name="wfdash:api-docs"), name="api-v1"),
    path("api/v1/docs/", api_reference.reference, {"document": api_document, "kinds": all_kinds}, name="api-docs"),
    path("api/v1/", api.urls),
    path("static/<slug:version>/<path:name>", static_files.static_file, name="static"),
    path("manifest.webmanifest", app.manifest, name="manifest"),
    path("service-worker.js", app.service_worker, name="service-worker"),
    path("offline/", app.offline, name="offline"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("health", health.health, name="health"),
    path("metrics", metrics.metrics, name="metrics"),
]
urlpatterns = independent(_patterns)

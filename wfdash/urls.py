"""Every address of the dashboard, in one list."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path, re_path

from wfdash.api.router import api
from wfdash.pages import checkpoint, health, inbox, request, run, runs, signin, workflows

VERB = r"^runs/(?P<run_id>[^/]+)/(?P<verb>cancel|pause|resume|retry)/$"
CHECKPOINT = "runs/<str:run_id>/checkpoints/<str:checkpoint_id>/"

urlpatterns = [
    path("", inbox.inbox, name="inbox"),
    path("requests/<str:request_id>/", request.request, name="request"),
    path("runs/", runs.runs, name="runs"),
    path("runs/<str:run_id>/", run.run, name="run"),
    re_path(VERB, run.act, name="run-act"),
    path(CHECKPOINT, checkpoint.checkpoint, name="checkpoint"),
    path(f"{CHECKPOINT}restore/", checkpoint.restore, name="restore"),
    path(f"{CHECKPOINT}fork/", checkpoint.fork, name="fork"),
    path("workflows/", workflows.workflows, name="workflows"),
    path("workflows/<path:name>/", workflows.workflow, name="workflow"),
    path("sign-in/", signin.sign_in, name="sign-in"),
    path("sign-in/<str:secret>/", signin.sign_in_link, name="sign-in-link"),
    path("sign-out/", signin.sign_out, name="sign-out"),
    path("api/", api.urls),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
]

handler400 = "wfdash.pages.errors.bad_request"
handler403 = "wfdash.pages.errors.forbidden"
handler404 = "wfdash.pages.errors.not_found"
handler500 = "wfdash.pages.errors.server_error"

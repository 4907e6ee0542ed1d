"""Django's admin with what only the dashboard knows: valid names of groups, and workflows of grants."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroups
from django.contrib.auth.admin import UserAdmin as DjangoUsers
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group
from django.http import HttpRequest

from checkpoints.admin import GrantAdmin as AllGrants
from checkpoints.models import Grant
from checkpoints.models.user_model import User
from wfdash.access.directory import problem_of_group, problem_of_person
from wfdash.access.viewer import EVERY
from wfdash.engines import catalog


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """A group whose name is valid in ``by`` and ``not_by`` and means nothing else there."""

    def clean_name(self) -> str:
        """Return the name; an error says what is wrong with it."""
        name = str(self.cleaned_data["name"])
        if "name" in self.changed_data and (problem := problem_of_group(name, now=self.instance.name or "")):
            raise forms.ValidationError(problem)
        return name


class NamedPerson:
    """A form for a user whose name no group has."""

    def clean_username(self: Any) -> str:
        """Return the name; an error says what is wrong with it."""
        name = str(self.cleaned_data["username"])
        if "username" in self.changed_data and (problem := problem_of_person(name, now=self.instance.username or "")):
            raise forms.ValidationError(problem)
        return name


class NewPersonForm(NamedPerson, AdminUserCreationForm):  # type: ignore[type-arg]
    """A new user."""


class PersonForm(NamedPerson, UserChangeForm):  # type: ignore[type-arg]
    """A user."""


class PersonAdmin(DjangoUsers):  # type: ignore[type-arg]
    """Users whose names policies can tell from groups."""

    form, add_form = PersonForm, NewPersonForm


class GroupAdmin(DjangoGroups):
    """Groups whose names policies can tell apart."""

    form = GroupForm


class ServedGrantAdmin(AllGrants):
    """Grants; one for a workflow that is not loaded is stored with a warning."""

    def save_model(self, request: HttpRequest, obj: Grant, form: Any, change: Any) -> None:
        """Save the grant, with a warning where no workflow has that name."""
        super().save_model(request, obj, form, change)
        if obj.workflow != EVERY and catalog.find(obj.workflow) is None:
            known = ", ".join(sorted(entry.name for entry in catalog.entries())[:12]) or "none"
            words = f"Workflow {obj.workflow} is not loaded, so this grant has no effect yet. Loaded: {known}"
            messages.warning(request, words)


def _show(model: Any, shown: Any) -> None:
    admin.site.unregister(model)
    admin.site.register(model, shown)


def _hide(*labels: str) -> None:
    """Show nothing of these apps."""
    for label in labels:
        app = apps.get_app_config(label)
        import_module(f"{app.name}.admin")  # registers its models, and does so once
        for model in filter(admin.site.is_registered, app.get_models()):
            admin.site.unregister(model)


_show(Grant, ServedGrantAdmin)
if settings.ROOT_URLCONF == "wfdash.web.pages.site.project_urls":
    # Identities and passkeys are changed on wfdash's own pages, where that is audited; a project's own are its own.
    _hide(*({"account", "mfa", "socialaccount"} & set(apps.app_configs)))
if settings.WFDASH_SIGN_IN:  # a project's own people and groups are its own to show
    _show(User, PersonAdmin)
    _show(Group, GroupAdmin)

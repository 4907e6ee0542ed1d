"""Django's admin with what only the dashboard knows: valid names of groups, and workflows of grants."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroups
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from checkpoints.admin import GrantAdmin as AllGrants
from checkpoints.models import Grant
from wfdash import catalog
from wfdash.access.viewer import EVERY

NAME = re.compile(r"\w([\w.@+ -]*[\w.@+-])?")
RESERVED = frozenset({"requester"})


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """A group whose name is valid in ``by`` and ``not_by`` and means nothing else there."""

    def clean_name(self) -> str:
        """Return the name; an error says what is wrong with it."""
        name = str(self.cleaned_data["name"])
        if not NAME.fullmatch(name):
            raise forms.ValidationError("Use letters, digits, spaces inside, and . @ + - _")
        if name.lower() in RESERVED:
            raise forms.ValidationError(f"{name} is reserved in policies. Choose another name")
        if "name" in self.changed_data and User.objects.filter(username=name).exists():
            raise forms.ValidationError(
                "A user has this name, and requests address users and groups by name. Choose another name"
            )
        return name


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


for model, shown in ((Group, GroupAdmin), (Grant, ServedGrantAdmin)):
    admin.site.unregister(model)
    admin.site.register(model, shown)

"""The project's addresses: names that wfdash has, too, and the dashboard below a prefix."""

from __future__ import annotations

from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from tests.embedding.shop.models import Order


def shop_front(request: HttpRequest) -> HttpResponse:
    """Show the project's own page."""
    return render(request, "base.html", {"heading": "The shop", "orders": Order.objects.count()})


def lost(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the project's own page of what does not exist."""
    return HttpResponse("The shop has no such page", status=404)


urlpatterns = [
    path("", shop_front, name="inbox"),
    path("login/", LoginView.as_view(template_name="login.html", next_page="/"), name="sign-in"),
    path("people/", include("wfdash.urls")),
]
handler404 = lost

"""``{% asset 'css/site.css' %}``, known to every template of the dashboard."""

from __future__ import annotations

from django import template

from wfdash.web.pages.site.files import address_of

register = template.Library()
register.simple_tag(address_of, name="asset")

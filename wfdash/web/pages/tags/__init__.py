"""The template tags of the design system, found by ``wfdash.notifications.rendering``."""

"""The template tags of the design system."""

"""Reads of a person's account: notifications and saved views."""

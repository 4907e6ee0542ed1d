"""Reads of requests: the inbox with its filter, one request, who works on it."""

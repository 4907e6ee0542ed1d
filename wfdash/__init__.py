"""wfdash: a self-hosted dashboard for workflows that need people."""

__version__ = "0.1.0"

"""One running step: its context, its recorded operations, their replay."""

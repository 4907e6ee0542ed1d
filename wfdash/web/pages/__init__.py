"""The pages, one folder per noun; ``site`` is shared by all, ``ui`` renders."""

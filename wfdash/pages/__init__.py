"""The pages, one folder per kind of thing; ``site`` surrounds them all, ``ui`` draws."""

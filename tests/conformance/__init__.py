"""The shipped suite, over every storage of ours."""

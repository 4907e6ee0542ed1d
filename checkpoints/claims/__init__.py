"""Claims on runs: what their holder is called, and the thread that renews them."""

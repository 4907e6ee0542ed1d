"""The list of runs: its page, its address, bulk actions and export."""

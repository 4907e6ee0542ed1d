"""Reads of runs: the list with its filter and search, one run, its steps, events, values and signals.

``filter_keys`` has the keys of the list's filter with their conditions, ``finding`` the indexes that lead to them.
``keeping`` says which ended runs are old and what keeps one all the same, for the removal and for who looks before.
"""

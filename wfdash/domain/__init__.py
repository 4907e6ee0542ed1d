"""The pure rules of the dashboard: cron, votes, the audit's hash chain, graph differences, JSON Patch. No Django.

``search_attributes`` are what a run is found by, ``labels`` names of code for people, ``hooks`` how senders of incoming
webhooks sign and how their JSON becomes a message, ``people_file`` who there is as a file. ``errors`` has the
dashboard's errors, and what each is to a program (status, code, title) in one table.
"""

"""Drives runs: claims one, hands it to its engine, records what it does under the claim.

One function, ``drive.advance``, and ways to call it: inline, embedded in the server process, or in a worker process.
"""

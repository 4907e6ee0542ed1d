"""The content of checkpoints: canonical JSON, content-addressed chunks, incremental encoding, encryption,
signatures.
"""

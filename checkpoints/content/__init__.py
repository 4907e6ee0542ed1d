"""The content of checkpoints: canonical JSON, chunks found by hash, encoding what changed, encryption, signatures."""

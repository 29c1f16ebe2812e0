"""Checkpoints on disk: one record a session, and a manifest that stands only when all records do (C12-C14)."""

"""Waiting events over HTTP: the report, decisions about holds and halts, and sources."""

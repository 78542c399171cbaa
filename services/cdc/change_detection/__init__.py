"""Detects tables that need a re-snapshot from the source's catalogue, and reads snapshot markers."""

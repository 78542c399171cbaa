"""Periodic rehearsals: whether some events of each open group would land now."""

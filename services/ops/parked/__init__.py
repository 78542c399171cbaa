"""Parked events, as people read them."""

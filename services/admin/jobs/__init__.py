"""Operators' jobs on sets of events, in the background."""

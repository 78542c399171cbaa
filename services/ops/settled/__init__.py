"""Reads `onramp.settled`, the writer's log of settled work: whole once, and then only new entries."""

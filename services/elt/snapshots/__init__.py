"""Snapshots that were asked for: the query by which one tells what it has seen, and what is kept of that."""

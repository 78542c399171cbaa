"""Checks changes of sources by transaction: each END's count against the landed changes."""

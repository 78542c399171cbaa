"""Verbs that show whether every event arrived: the statement."""

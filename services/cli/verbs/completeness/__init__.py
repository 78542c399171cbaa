"""Verbs that show whether every event arrived: the statement, and the tracer."""

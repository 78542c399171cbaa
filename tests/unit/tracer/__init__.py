"""The tracer."""

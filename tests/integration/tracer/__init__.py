"""The tracer on a real Postgres."""

"""The writer's health, readiness and metrics."""

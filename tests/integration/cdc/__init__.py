"""The merger against real Postgres; changes land by the writer's own task."""

"""Samples over HTTP: a good event beside a bad one, schemas inferred from events, and previews of tables."""

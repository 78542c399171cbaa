"""Samples over HTTP: a good event to compare with a bad one, inferred schemas, and previews of tables."""

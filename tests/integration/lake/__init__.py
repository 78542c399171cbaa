"""The lake with real processes."""

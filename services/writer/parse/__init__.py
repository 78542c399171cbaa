"""A batch's bytes as events, those of the same layout at once."""

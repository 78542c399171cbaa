"""A batch's bytes as events, those that are written alike at once."""

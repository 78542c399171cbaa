"""Units of the lake."""

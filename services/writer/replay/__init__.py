"""REPLAY: parked events that a person wants to land now, and whether they would."""

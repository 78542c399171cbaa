"""Edits of parked events before a replay: payloads only, by steps that are data."""

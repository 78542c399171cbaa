"""What is edited in parked events before a replay: payloads alone, by steps that are data."""

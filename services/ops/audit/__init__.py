"""The audit: what was received against what landed, waits or is parked."""

"""The audit: received events compared with those that landed, wait or are parked."""

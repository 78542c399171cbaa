"""The gateway's metrics and logs about requests."""

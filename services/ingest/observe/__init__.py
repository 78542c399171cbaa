"""What the gateway counts and logs about requests."""

"""CHECK: each item must be an envelope that its sender may send."""

"""What the writer shows of itself: health, readiness, metrics."""

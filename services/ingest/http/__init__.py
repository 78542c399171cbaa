"""HTTP around the flow: request bodies, answers, and pages outside the hot path."""

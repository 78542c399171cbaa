"""The state of the lake service: status and metrics."""

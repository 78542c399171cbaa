"""The control database: what is kept of parked events, and what was decided about them."""

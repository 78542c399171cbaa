"""The control database: stored parked events, and operators' decisions about them."""

"""The dead-letter ingester: copies `onramp.user_errors` into the control database."""

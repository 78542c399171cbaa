"""The ingester: follows `onramp.user_errors` into the control database."""

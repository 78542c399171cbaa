"""The keeper: follows `onramp.user_errors` into the control database."""

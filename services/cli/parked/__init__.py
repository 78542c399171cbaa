"""What is done about parked events as a whole, by `onramp errors`."""

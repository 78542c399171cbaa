"""What operators have done to sets of events, in the background."""

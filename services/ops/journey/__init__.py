"""The journey of an event: where it was accepted, where it is now, and how it got there."""

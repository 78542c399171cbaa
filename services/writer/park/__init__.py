"""PARK and divert: events that cannot land now go to Onramp's own topics, without a gap."""

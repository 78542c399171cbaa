"""PARK and divert: what cannot land now goes to Onramp's own topics, without a gap."""

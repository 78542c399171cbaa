"""PARK and divert: what cannot land now leaves for Onramp's own topics, without a gap."""

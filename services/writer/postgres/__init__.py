"""Connections to the databases, classification of their errors, deadlines, and Onramp's own schema."""

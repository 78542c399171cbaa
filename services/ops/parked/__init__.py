"""Parked events: parsing, causes, facets and presentation."""

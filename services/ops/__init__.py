"""Operators' queries and decisions as a library for the CLI and the admin service."""

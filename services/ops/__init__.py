"""Operators' questions and decisions as a library: the CLI and the admin service both call it."""

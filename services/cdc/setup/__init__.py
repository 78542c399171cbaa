"""Operators' commands for sources: prepare one, check it, list them, request a resync."""

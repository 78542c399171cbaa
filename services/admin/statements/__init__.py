"""Statements: hourly readings in the control database, and a period's statement from them."""

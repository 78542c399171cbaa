"""The merger: polls each database for landed changes, and merges the tables that have new ones."""

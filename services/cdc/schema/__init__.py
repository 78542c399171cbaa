"""The tables of change data capture in the databases that sources are published to, and their migrations."""

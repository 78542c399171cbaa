"""Connections to Postgres that no silent server holds: signs of life, deadlines, what was silent."""

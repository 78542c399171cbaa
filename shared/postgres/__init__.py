"""Connections to Postgres that a silent server cannot block: signs of life, deadlines, silent servers."""

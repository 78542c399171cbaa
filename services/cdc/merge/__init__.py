"""Merges one table: its changes are staged, folded and applied; `merge_sql.py` is the flow."""

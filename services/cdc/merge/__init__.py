"""One table: its changes, staged, folded and applied to the public table; `merge_sql.py` is the flow."""

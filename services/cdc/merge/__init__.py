"""Merges one table: its changes are staged, folded and applied; `table_merge.py` is the flow."""

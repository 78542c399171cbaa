"""TASK: lands a share of a batch in Delta tables; `land.py` is the flow."""

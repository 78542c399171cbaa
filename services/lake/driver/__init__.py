"""The driver: follows partitions, plans batches, and settles them; `loop.py` is the flow."""

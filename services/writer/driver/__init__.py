"""The driver: constructs the parts, turns the loop; `batch.py` is one batch, top to bottom."""

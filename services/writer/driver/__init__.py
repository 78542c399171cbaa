"""The driver: constructs the parts and runs the loop; `batch.py` is one batch, top to bottom."""

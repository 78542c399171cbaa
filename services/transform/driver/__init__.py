"""The driver of transforms: its epoch, lags, and at most one run of each lane; `loop.py` is the flow."""

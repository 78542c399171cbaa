"""The agent configures and monitors the connectors that capture sources; `reconcile.py` is the flow."""

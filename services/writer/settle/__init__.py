"""SETTLE: the flow of a task over its ranges (`task.py`), and the outcomes of one transaction."""

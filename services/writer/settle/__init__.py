"""What a task does with its ranges, and what one transaction decides; `task.py` is the flow."""

"""A lane run, one Spark task: fence, positions, then transactions; `task.py` is the flow."""

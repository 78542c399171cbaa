"""Change data capture: the agent captures databases' changes, the merger merges them into public tables."""

"""What follows databases: the agent captures their changes, the modeler merges them into public tables."""

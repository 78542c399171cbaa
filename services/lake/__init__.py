"""The lake: lands events in Delta tables exactly once, with its own Spark driver and consumer group."""

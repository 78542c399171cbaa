"""The lake: lands events in Delta tables, exactly once, by a Spark driver and consumer group of its own."""

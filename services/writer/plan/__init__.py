"""What a change of the registry would do to events that Kafka holds: both rules tried, nothing kept."""

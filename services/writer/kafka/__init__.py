"""Kafka for the driver and the tasks: positions, leaders, and producing records."""

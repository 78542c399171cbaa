"""Kafka as the driver and the tasks see it: positions, leaders, records out."""

"""Kafka as the driver and the tasks see it: positions, leaders, small reads, records out."""

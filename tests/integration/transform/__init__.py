"""The transform service on real Kafka."""

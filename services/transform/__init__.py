"""Transforms: an author's Python function on every event of a type, from Kafka to Kafka, as Spark tasks."""

"""SEND: to Kafka, by partition, within a deadline and a byte budget."""

"""The admin service: reads what gateway and writer have left in Kafka and the databases."""

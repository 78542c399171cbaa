"""READ: reads ranges of Kafka's partitions as Arrow columns, without an object for each record."""

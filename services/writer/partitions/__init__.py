"""What the log of settled work says of partitions: plans, halts, and who was set aside."""

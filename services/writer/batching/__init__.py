"""The size of a batch: the number of events, the partitions, and the rate of rows."""

"""How much a batch takes, of which partitions, at which rate."""

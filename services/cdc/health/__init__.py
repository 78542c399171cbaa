"""How a source is: its replication slot, who reads it, and what a failure of its connector asks for."""

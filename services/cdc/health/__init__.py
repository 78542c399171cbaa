"""The health of a source: its replication slot, the slot's reader, and remedies for connector failures."""

"""The contracts, formats and settings that the gateway and the writer share."""

"""What is done with the registry: changes, tables and topics that they need, looks; for verbs and the API."""

"""Operations on the registry for the CLI and the API: changes, their tables and topics, and queries."""

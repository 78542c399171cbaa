"""The words and contracts that the gateway and the writer have in common."""

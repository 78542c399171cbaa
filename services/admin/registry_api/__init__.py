"""The registry over HTTP: /v1/registry, types, keys, destinations, access and topics, as in the CLI."""

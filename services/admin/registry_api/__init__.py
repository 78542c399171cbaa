"""The registry over HTTP: /v1/registry, types, keys, destinations, access and topics, as the verbs do it."""

"""The admin service's HTTP: /v1 over the control database, problem+json, and the ingester's state."""

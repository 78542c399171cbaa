"""The gateway: HTTP in, Kafka out.  `accept.py` is the flow."""

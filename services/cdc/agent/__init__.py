"""The agent: has Kafka Connect capture the sources' changes, and watches over it; `look.py` is the flow."""

"""Kafka in, Postgres out.  ``batch.py`` is the flow of the driver, ``task.py`` that of a worker."""

"""The embedded stack: Kafka and Postgres on this machine, for a laptop, tests and demos.

Only the command line of `services/` imports this package: in production the broker and the databases are
external, and the services only get addresses.
"""

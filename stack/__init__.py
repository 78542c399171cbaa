"""The embedded stack: Kafka and Postgres on this machine, for a laptop, tests and demos.

Of `services/`, only the command line imports this package: in production the broker and the databases are
external, and the services only get addresses.
"""

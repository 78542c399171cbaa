"""The embedded stack: Kafka and Postgres on this machine, for a laptop, tests and demos.

Nothing in `services/` imports this package except the command line: in production the
broker and the databases are somebody else's, and the services only get addresses.
"""

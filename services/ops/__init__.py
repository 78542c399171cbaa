"""What operators can ask of Kafka and the databases, and do there: a library for the CLI and the admin service."""

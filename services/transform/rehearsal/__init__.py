"""`onramp transforms rehearse`: runs a function on events in Kafka, and writes nothing."""

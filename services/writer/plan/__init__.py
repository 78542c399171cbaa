"""`onramp plan`: tries a change of the registry on events in Kafka, under both rules, and rolls back."""

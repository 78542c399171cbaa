"""Verbs about what the registry names, and those that change it in Kafka, with what they have in common."""

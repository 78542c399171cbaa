"""Verbs that change the registry in Kafka, and what they have in common."""

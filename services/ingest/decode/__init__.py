"""DECODE: a body becomes items, each with the producer's own bytes."""

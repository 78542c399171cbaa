"""Transforms for operators: deploys and rollbacks in the registry, states, and log lines."""

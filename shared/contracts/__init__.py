"""Contracts of event types: compiling schemas, comparing them and inferring them from samples."""

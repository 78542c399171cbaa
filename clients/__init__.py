"""Senders for applications: what a producer installs, or copies, and nothing of the services."""

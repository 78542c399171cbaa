"""Syslog around the flow: listeners, framing, messages as envelopes."""

"""Audits as jobs: one at a time, in a process of its own, so that the API answers while it reads."""

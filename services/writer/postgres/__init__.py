"""Connections to the databases, what their errors mean, deadlines, and Onramp's own schema there."""

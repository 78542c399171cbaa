"""The figures of the web UI: gateways, writer and totals are read in the background, and kept for an hour."""

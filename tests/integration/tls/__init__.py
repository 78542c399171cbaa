"""TLS and passwords at every hop, against real brokers and a throw-away authority."""

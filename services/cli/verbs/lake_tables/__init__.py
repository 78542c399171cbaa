"""`onramp lake`: one module for reading the tables, one for their maintenance."""

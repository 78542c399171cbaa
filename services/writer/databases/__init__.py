"""The states of the databases and their recovery: claims, drains, halts, and retired databases."""

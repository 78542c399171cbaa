"""The process: looks what landed, in each database, and merges the tables that have news."""

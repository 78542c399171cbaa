"""SORT: finds the tables that an event goes to."""

"""SORT: to which tables an event goes."""

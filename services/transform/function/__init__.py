"""The author's function: its process, its limits and its lookups."""

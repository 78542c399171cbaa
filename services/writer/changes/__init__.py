"""Changes of sources: which table each is of, as rows, and into their landing tables."""

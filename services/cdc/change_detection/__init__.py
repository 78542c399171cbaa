"""Which tables must be read again, by what is seen of the catalogue, and what a snapshot tells of itself."""

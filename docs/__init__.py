"""The documentation, and what writes the parts of it that the code knows best."""

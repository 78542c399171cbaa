"""HTTP around the flow: bodies in, answers out, and the pages that are not hot."""

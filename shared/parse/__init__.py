"""PARSE: converts a batch's bytes to events; events of the same layout are parsed together."""

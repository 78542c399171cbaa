"""Columns of a table, and the conversion of JSON values to the text that each kind of column accepts."""

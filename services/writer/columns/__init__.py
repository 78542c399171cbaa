"""What a table's columns are, and the text that each kind of column takes for a JSON value."""

"""The lake's Delta tables: names, columns, storage and positions, for each service that uses them."""

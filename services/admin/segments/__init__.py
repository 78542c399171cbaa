"""Segments: the bytes of kept events in Parquet files, out of the control database."""

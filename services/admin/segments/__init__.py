"""Segments: the bytes of stored events in Parquet files, outside the control database."""

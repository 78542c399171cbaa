"""The statement: records of a period by topic and destination, compared with their outcomes."""

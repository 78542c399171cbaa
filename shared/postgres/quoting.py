"""Quotes names in SQL that operators run; queries of the services use psycopg2's `sql`."""


def identifier(name: str) -> str:
    """Return any Postgres name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal for standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"

"""Names where SQL is written for somebody else to run; of our own queries psycopg2's `sql` does it."""


def identifier(name: str) -> str:
    """Return a name of Postgres as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal, with standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"

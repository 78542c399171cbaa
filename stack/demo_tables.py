"""The table of airlines' names for transforms of the demo's flights (docs/transforms.md)."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

import psycopg2

#: An existing table remains as it is, and the role may lack the right to create tables in public.
_MAY_CREATE: Final = """
    SELECT to_regclass('public.airlines') IS NULL AND has_schema_privilege('public', 'CREATE')
"""
_CREATE: Final = "CREATE TABLE public.airlines (carrier text PRIMARY KEY, name text NOT NULL)"
_INSERT: Final = "INSERT INTO public.airlines SELECT * FROM unnest(%s::text[], %s::text[])"


def make_airlines(dsn: str, names: Mapping[str, str]) -> bool:
    """Create `public.airlines` with the names by carrier, unless it exists; return whether it was created.

    Raise `psycopg2.OperationalError` if the database cannot be reached.
    """
    with (
        closing(psycopg2.connect(dsn, application_name="onramp-demo")) as conn,
        conn,
        conn.cursor() as cursor,
    ):
        cursor.execute(_MAY_CREATE)
        (may_create,) = cursor.fetchone() or (False,)
        if may_create:
            cursor.execute(_CREATE)
            cursor.execute(_INSERT, (list(names), list(names.values())))
        return bool(may_create)

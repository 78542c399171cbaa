"""SQL that a DBA runs at a source before it can be captured: Onramp itself changes nothing there."""

from collections.abc import Iterator
from typing import Final

from services.cdc.agent import names
from services.cdc.change_detection import identity_sql
from services.cdc.setup.check_sql import role_of
from services.cdc.setup.scram import verifier
from shared.postgres.quoting import identifier, literal
from shared.postgres.source_dsns import password_in
from shared.registry.sources import Source

_PASSWORD: Final = "choose-one"  # noqa: S105 - to be replaced
#: The server drops a slot's WAL by itself at this multiple of the budget, should no agent run.
_BELT: Final = 2
#: The server only warns of a publication that is created before the restart, and a pipe into psql continues.
_RESTARTED: Final = """\
DO $$ BEGIN
  IF current_setting('wal_level') <> 'logical' THEN
    RAISE 'wal_level is % until the server is restarted: restart it, then run this again',
      current_setting('wal_level');
  END IF; END $$;"""
#: Runs before the publication, which would break the application.
_IDENTIFIED: Final = f"""\
DO $$ DECLARE lacking text; BEGIN
  SELECT string_agg(format('%I.%I', n.nspname, c.relname), ', ') INTO lacking
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname IN ({{schemas}}) AND c.relkind = 'r' AND c.relpersistence = 'p'
    AND {identity_sql.lacks("c")};
  IF lacking IS NOT NULL THEN
    RAISE 'UPDATE and DELETE would fail without a primary key: %', lacking
      USING HINT = 'Add a key, or ALTER TABLE … REPLICA IDENTITY FULL; then run this again.';
  END IF; END $$;"""  # noqa: S608 - printed for a DBA


def statements(name: str, source: Source, dsn: str = "") -> str:
    """Return the SQL that prepares a source: required statements, then optional ones.

    `dsn`: the source's, for its role and password; empty when it is not known.
    """
    user = identifier(role_of(dsn) or names.slot(name))
    belt = source.wal_budget_bytes * _BELT >> 20
    schemas = ", ".join(map(identifier, source.schemas))
    lines = [
        "-- REQUIRED. Run this as a superuser in the source's database (psql -v ON_ERROR_STOP=1).",
        "-- It can be run again until it has passed the second check.",
        "-- 1. Logical decoding. This stops until the server was restarted with it.",
        "ALTER SYSTEM SET wal_level = 'logical';",
        _RESTARTED,
        "-- 2. This stops if a published table without an identity would refuse UPDATE and DELETE.",
        "-- Delete the check if such tables are only appended to.",
        _IDENTIFIED.format(schemas=", ".join(map(literal, source.schemas))),
        "-- 3. A role that may replicate and read.",
        *_role(user, source.dsn_env, dsn),
    ]
    for schema in map(identifier, source.schemas):
        lines += [
            f"GRANT USAGE ON SCHEMA {schema} TO {user};",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {user};",
            "-- Again with FOR ROLE … for each other role that creates tables there:",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {user};",
        ]
    lines += [
        "-- 4. The publication, of these schemas alone.",
        f"CREATE PUBLICATION {identifier(names.publication(name))} FOR TABLES IN SCHEMA {schemas}",
        "  WITH (publish_via_partition_root = true);",
        "",
        "-- OPTIONAL.",
        "-- A limit of the WAL that the server keeps for Onramp while no agent runs.",
        f"ALTER SYSTEM SET max_slot_wal_keep_size = '{belt}MB';",
        "SELECT pg_reload_conf();",
    ]
    return "\n".join(lines)


def _role(user: str, variable: str, dsn: str) -> Iterator[str]:
    if password := verifier(password_in(dsn)):
        yield f"-- The password of {variable}, as a verifier."
    else:
        yield f"-- Replace {_PASSWORD} with a password, and put it into {variable}."
        password = _PASSWORD
    yield f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD '{password}';"

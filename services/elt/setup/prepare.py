"""What a DBA runs at a source before it can be captured, as text: Onramp itself changes nothing there."""

from typing import Final

from services.elt.agent import names
from services.elt.snapshots import noted_sql
from shared.postgres.quoting import identifier
from shared.registry.sources import Source

_PASSWORD: Final = "choose-one"  # noqa: S105 - to be replaced
#: The server gives up a slot by itself at so many times the budget, should no agent run.
_BELT: Final = 2


def statements(name: str, source: Source, role: str = "") -> str:
    """Return the SQL that prepares a source; `role` is the one of its DSN."""
    user = identifier(role or names.slot(name))
    belt = source.wal_budget_bytes * _BELT >> 20
    lines = [
        "-- As superuser, in the source's database. The first two need a restart and a reload of the server.",
        "ALTER SYSTEM SET wal_level = 'logical';",
        "-- The belt, should no agent watch:",
        f"ALTER SYSTEM SET max_slot_wal_keep_size = '{belt}MB';",
        f"CREATE ROLE {user} LOGIN REPLICATION PASSWORD '{_PASSWORD}';",
    ]
    for schema in map(identifier, source.schemas):
        lines += [
            f"GRANT USAGE ON SCHEMA {schema} TO {user};",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {user};",
            "-- Again with FOR ROLE … for each role that makes tables there:",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {user};",
        ]
    schemas = ", ".join(map(identifier, source.schemas))
    return "\n".join(
        [
            *lines,
            f"CREATE PUBLICATION {identifier(names.publication(name))} FOR TABLES IN SCHEMA {schemas}",
            "  WITH (publish_via_partition_root = true);",
            "-- What comes and goes while nobody looks is noted: partitions, names of schemas and columns.",
            noted_sql.MADE.format(schema=identifier(names.notes(name)), role=user),
        ]
    )

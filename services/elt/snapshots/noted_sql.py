"""What came and went, as the source itself notes it, where the catalogue keeps no trace.

An event trigger, which a DBA makes (`onramp sources sql`), adds each partition's attachment, and each name
that a schema or a column gets, to a table of its own, in the same transaction.  So what is no more was noted
by somebody.  Their entries in the catalogue would not do: each GRANT writes a schema's, also one that changes
nothing, and what writes a column's and lasts hides what does not.
"""

from typing import Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor

from services.elt.snapshots import identity_sql

#: `attached`: who wrote the attachment's entry, and where: one that is made again is another.
_NOTE: Final = """\
INSERT INTO {{schema}}.attachments
  WITH RECURSIVE tree AS (
    SELECT DISTINCT root, root AS parent, NULL::oid AS partition, NULL::text AS attached
    FROM ({roots}) AS roots (root)
    UNION ALL
    SELECT root, i.inhparent, i.inhrelid, concat(i.xmin, i.ctid)
    FROM tree JOIN pg_inherits i ON i.inhparent = coalesce(partition, parent))
  SELECT * FROM tree WHERE partition IS NOT NULL ON CONFLICT DO NOTHING;"""
_OF_COMMAND: Final = _NOTE.format(
    roots="SELECT pg_partition_root(objid)::oid FROM pg_event_trigger_ddl_commands() "
    "WHERE object_type = 'table'"
)
_OF_ALL: Final = _NOTE.format(roots="SELECT oid FROM pg_class WHERE relkind = 'p' AND NOT relispartition")
#: By number the columns' names of a table; as number 0 the columns by which its rows are told, and as -1
#: whether they are told whole, which is of matter for a partition alone.
_NAMES: Final = f"""
    SELECT a.attrelid, a.attnum, a.attname::text FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT c.oid, 0, coalesce(({identity_sql.numbers("c")}), '')
    UNION ALL
    SELECT c.oid, -1, c.relreplident::text
"""  # noqa: S608 - our own words
_NOTE_NAMES: Final = f"""\
INSERT INTO {{schema}}.column_names (relation, number, name)
  SELECT now.* FROM pg_class c CROSS JOIN LATERAL ({_NAMES}) AS now (relation, number, name)
  WHERE c.oid IN (SELECT objid FROM pg_event_trigger_ddl_commands() WHERE command_tag = 'ALTER TABLE')
    AND now.name IS DISTINCT FROM (
      SELECT before.name FROM {{schema}}.column_names before
      WHERE before.relation = now.relation AND before.number = now.number ORDER BY noted DESC LIMIT 1);"""  # noqa: S608
#: With the owner's rights, for whoever changes a table.  What is there already is noted at once: or those who
#: change tables of one root would wait for each other.
MADE: Final = f"""\
CREATE SCHEMA {{schema}};
CREATE TABLE {{schema}}.attachments (root oid, parent oid, partition oid, attached text,
  PRIMARY KEY (root, parent, partition, attached));
CREATE TABLE {{schema}}.schema_names (schema oid, name text, given xid8, PRIMARY KEY (schema, name, given));
CREATE TABLE {{schema}}.column_names (relation oid, number int, name text, noted bigserial,
  PRIMARY KEY (relation, number, noted));
GRANT USAGE ON SCHEMA {{schema}} TO {{role}};
GRANT SELECT ON {{schema}}.attachments, {{schema}}.schema_names, {{schema}}.column_names TO {{role}};
CREATE FUNCTION {{schema}}.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  {_OF_COMMAND}
  {_NOTE_NAMES}
  INSERT INTO {{schema}}.schema_names
  SELECT n.oid, n.nspname, pg_current_xact_id()
  FROM pg_event_trigger_ddl_commands() c JOIN pg_namespace n ON n.oid = c.objid
  WHERE c.object_type = 'schema' AND c.command_tag = 'ALTER SCHEMA' ON CONFLICT DO NOTHING; END $$;
CREATE EVENT TRIGGER {{schema}} ON ddl_command_end
  WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE SCHEMA', 'ALTER SCHEMA')
  EXECUTE FUNCTION {{schema}}.note();
ALTER EVENT TRIGGER {{schema}} ENABLE ALWAYS;
{_OF_ALL}"""  # noqa: S608 - our own words
_IS_THERE: Final = """
    SELECT count(*) = 3 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname IN ('attachments', 'schema_names', 'column_names')
      AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
"""
_PAST: Final = sql.SQL("""
    SELECT oid::int8, count(*) FROM (
        SELECT unnest(ARRAY[a.root, a.partition]) AS oid FROM {attachments} a
        WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = a.partition
                          AND i.inhparent = a.parent AND concat(i.xmin, i.ctid) = a.attached)) AS past
    GROUP BY 1
""")
_AWAY: Final = sql.SQL("""
    SELECT n.nspname, count(*) FROM {schema_names} s JOIN pg_namespace n ON n.oid = s.schema
    WHERE n.nspname <> s.name GROUP BY 1
""")
#: A column that was dropped has no name any more, and no look needs it.
_MOMENT: Final = sql.SQL(f"""
    SELECT n.relation::int8, max(n.noted) FROM {{column_names}} n JOIN pg_class c ON c.oid = n.relation
    JOIN LATERAL ({_NAMES}) AS now (relation, number, name) ON now.number = n.number AND now.name <> n.name
    WHERE n.number >= 0 OR c.relispartition GROUP BY 1
""")  # noqa: S608 - our own words


class Noted(NamedTuple):
    """How often a table was attached, or had one attached, that is no more so, by oid.

    How often a schema got a name that it has no more, by name.  And by a table's oid the number of the last
    note of a column's name, or of how rows were told, that is so no more.
    """

    past: dict[int, int]
    away: dict[str, int]
    moments: dict[int, int]


def noted(cur: cursor, schema: str) -> Noted | None:
    """Return what a source has noted in `schema`; None where nobody notes."""
    cur.execute(_IS_THERE, (schema,))
    if cur.fetchone() != (True,):
        return None
    cur.execute(_PAST.format(attachments=sql.Identifier(schema, "attachments")))
    past = dict(cur.fetchall())
    cur.execute(_AWAY.format(schema_names=sql.Identifier(schema, "schema_names")))
    away = dict(cur.fetchall())
    cur.execute(_MOMENT.format(column_names=sql.Identifier(schema, "column_names")))
    return Noted(past, away, dict(cur.fetchall()))

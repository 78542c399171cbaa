"""Partitions that came and went, as the source itself notes them: of those the catalogue keeps no trace.

An event trigger, which a DBA makes (`onramp sources sql`), adds each attachment to a table of its own, in the
transaction that makes it.  So one that is no more was noted, whoever looked meanwhile.
"""

from typing import Final

from psycopg2 import sql
from psycopg2.extensions import cursor

TABLE: Final = "attachments"
#: With the owner's rights, for whoever changes a table.  `attached`: who wrote the attachment's entry, and
#: where: one that is made again is another.
MADE: Final = """\
CREATE SCHEMA {schema};
CREATE TABLE {schema}.attachments (root oid, parent oid, partition oid, attached text,
  PRIMARY KEY (root, parent, partition, attached));
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT ON {schema}.attachments TO {role};
CREATE FUNCTION {schema}.note_attachments() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO {schema}.attachments
  WITH RECURSIVE tree AS (
    SELECT DISTINCT pg_partition_root(objid)::oid AS root, pg_partition_root(objid)::oid AS parent,
      NULL::oid AS partition, NULL::text AS attached
    FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table'
    UNION ALL
    SELECT root, i.inhparent, i.inhrelid, concat(i.xmin, i.ctid)
    FROM tree JOIN pg_inherits i ON i.inhparent = coalesce(partition, parent))
  SELECT * FROM tree WHERE partition IS NOT NULL ON CONFLICT DO NOTHING; END $$;
CREATE EVENT TRIGGER {schema} ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE SCHEMA')
  EXECUTE FUNCTION {schema}.note_attachments();"""
_IS_THERE: Final = """
    SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_PAST: Final = sql.SQL("""
    SELECT oid::int8, count(*) FROM (
        SELECT unnest(ARRAY[a.root, a.partition]) AS oid FROM {attachments} a
        WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = a.partition
                          AND i.inhparent = a.parent AND concat(i.xmin, i.ctid) = a.attached)) AS past
    GROUP BY 1
""")


def past(cur: cursor, schema: str) -> dict[int, int] | None:
    """Return by oid how often a table was attached, or had one attached, that is no more so.

    None where nobody notes it.
    """
    cur.execute(_IS_THERE, (schema, TABLE))
    if cur.fetchone() != (True,):
        return None
    cur.execute(_PAST.format(attachments=sql.Identifier(schema, TABLE)))
    return dict(cur.fetchall())

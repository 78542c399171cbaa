"""A cheap indicator of changes in a source's catalogue: while it is unchanged, so are the tables.

The query for the tables (`tables_sql`) costs the source's server 0.1 ms per table, the indicator 4 us.  Each
version of a catalogue entry has the id of the transaction that wrote it (`xmin`). Adding, altering or
dropping an entry changes the number of entries or the sum of their ids.  An unrelated change may change them
too: then the tables are read and compared.
"""

from typing import Final

#: A transaction id has no cast to a number; its age is one, and grows like that of every other id.
_SUM: Final = "concat(count(*), '/', sum(age({alias}.xmin)) - count(*) * age('3'::xid))"


def _of(entries: str, alias: str) -> str:
    """Return the indicator of a catalogue's entries."""
    return f"(SELECT {_SUM.format(alias=alias)} FROM {entries})"  # noqa: S608 - our own words


#: Tables of the schemas, all partitions (which may be in other schemas), and composite types.
_RELATIONS: Final = f"""
    SELECT {_SUM.format(alias="c")} AS indicator, array_agg(c.oid) AS oids FROM pg_class c
    WHERE c.relpersistence <> 't' AND (c.relkind = 'c' OR (c.relkind IN ('r', 'p', 'f') AND (c.relispartition
        OR c.relnamespace = ANY (ARRAY(SELECT oid FROM pg_namespace WHERE nspname = ANY (%(schemas)s))))))
"""  # noqa: S608 - our own words
#: An index scan: a scan of all columns of the database costs as much for 50 tables as for all.
_AMONG: Final = "= ANY ((SELECT oids FROM relations)::oid[])"
_PUBLISHED: Final = """
    SELECT string_agg(concat_ws('/', p.oid, p.xmin, s.oid, s.xmin, r.oid, r.xmin), ',' ORDER BY s.oid, r.oid)
    FROM pg_publication p LEFT JOIN pg_publication_namespace s ON s.pnpubid = p.oid
    LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid WHERE p.pubname = %(publication)s
"""
#: One text.  Types exclude arrays and the row types of tables, which temporary tables also have.
INDICATOR: Final = f"""
    WITH relations AS MATERIALIZED ({_RELATIONS})
    SELECT concat_ws(' ', (SELECT indicator FROM relations),
        {_of(f"pg_attribute a WHERE a.attnum > 0 AND a.attrelid {_AMONG}", "a")},
        {_of(f"pg_index i WHERE i.indrelid {_AMONG}", "i")},
        {_of("pg_inherits i", "i")}, {_of("pg_enum e", "e")},
        {_of("pg_type t WHERE t.oid >= 16384 AND t.typtype <> 'c' AND t.typcategory <> 'A'", "t")},
        (SELECT string_agg(concat(oid, nspname), ',' ORDER BY oid) FROM pg_namespace
         WHERE nspname = ANY (%(schemas)s)),
        ({_PUBLISHED}),
        (SELECT concat(rolname, rolsuper, rolbypassrls) FROM pg_roles WHERE rolname = current_user))
"""  # noqa: S608 - our own words

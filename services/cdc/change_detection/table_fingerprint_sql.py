"""The fingerprint of a table in the source's catalogue, as SQL over `pg_class c`; it waits for no lock."""

from typing import Final

from services.cdc.change_detection import identity_sql

#: The source's own types of the columns, and the types that these consist of.
_USED: Final = """
    SELECT a.atttypid AS oid FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 12000
    UNION
    SELECT below.oid FROM used JOIN pg_type t USING (oid) CROSS JOIN LATERAL (
        VALUES (t.typbasetype), (t.typelem)
        UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
        UNION ALL SELECT p.atttypid FROM pg_attribute p
                  WHERE p.attrelid = t.typrelid AND p.attnum > 0 AND NOT p.attisdropped) AS below (oid)
    WHERE below.oid >= 12000
"""
#: Partitions of all levels.  pg_partition_tree would lock each of them, and wait for a rewrite.
TREE: Final = """
    SELECT i.inhrelid AS oid, i.xmin AS attached FROM pg_inherits i
    WHERE i.inhparent = c.oid AND NOT i.inhdetachpending AND c.relkind = 'p'
    UNION ALL
    SELECT i.inhrelid, i.xmin FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid
    WHERE NOT i.inhdetachpending
"""
#: Values of enumerations by their oid, and attributes of composites by the type's.
_LABELS: Final = """
    SELECT jsonb_object_agg(named.oid::int8, named.label) FROM (
        SELECT e.oid, e.enumlabel::text AS label FROM used JOIN pg_enum e ON e.enumtypid = used.oid
        UNION ALL
        SELECT t.oid, string_agg(p.attnum::text, ',' ORDER BY p.attnum)
        FROM used JOIN pg_type t USING (oid) JOIN pg_attribute p ON p.attrelid = t.typrelid
        WHERE t.typtype = 'c' AND p.attnum > 0 AND NOT p.attisdropped GROUP BY 1) AS named
"""
#: Differs after the publication was altered, or the schema was removed from it and added again.
_PUBLISHED: Final = """
    SELECT concat_ws('/', p.oid, p.xmin, s.oid, s.xmin)
    FROM pg_publication p JOIN pg_publication_namespace s ON s.pnpubid = p.oid
    WHERE p.pubname = %(publication)s AND s.pnnspid = c.relnamespace
"""
#: The partitions' own values: their oids, their files, and columns whose rows have a default that the root no
#: longer has.
_PARTITIONS: Final = """
    SELECT jsonb_build_object(
        'partitions', jsonb_agg(t.oid::int8 ORDER BY t.oid) FILTER (WHERE k.relkind <> 'p'),
        'files', jsonb_object_agg(t.oid::int8, concat(k.relfilenode, '/', t.attached)),
        'filled', (SELECT jsonb_agg(DISTINCT a.attname) FROM tree JOIN pg_attribute a ON a.attrelid = tree.oid
                   WHERE a.atthasmissing AND a.attnum > 0))
    FROM tree t JOIN pg_class k ON k.oid = t.oid
"""
#: The argument of `RowsStamp.of`.
STAMP: Final = f"""
    jsonb_build_object('oid', c.oid::int8, 'file', c.relfilenode::int8,
        'columns', (SELECT jsonb_object_agg(a.attnum, jsonb_build_array(a.attname, a.atttypid::int8,
                a.atttypmod, a.atthasdef OR a.atthasmissing OR a.attnotnull OR a.attidentity <> ''))
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
              AND a.attgenerated = ''),
        'generated', (SELECT jsonb_agg(a.attnum) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''),
        'dropped', coalesce((SELECT jsonb_agg(a.attnum) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attisdropped), '[]'),
        'toast', c.reltoastrelid::int8, 'is_truncated', EXISTS (
            SELECT FROM (SELECT c.reltoastrelid UNION ALL
                         SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = c.oid) AS made (oid)
            JOIN pg_class x USING (oid) WHERE x.relfilenode::int8 = c.relfilenode::int8 + 1),
        'key', coalesce(({identity_sql.numbers("c")}), ''), 'published', ({_PUBLISHED}))
    || (WITH RECURSIVE used AS ({_USED}), tree AS ({TREE})
        SELECT jsonb_build_object('labels', ({_LABELS}))
            || CASE WHEN c.relkind = 'p' THEN ({_PARTITIONS}) ELSE '{{}}' END)
"""  # noqa: S608 - our own words
#: Columns other than the root's identify a partition's rows: no row is found by its changes.
_TELLS_OTHERS: Final = f"""
    k.relreplident IN ('d', 'i') AND ({identity_sql.names("k")}) IS NOT NULL
    AND (({identity_sql.names("k")}) @> ({identity_sql.names("c")})) IS NOT TRUE
"""
#: Why a snapshot, or the log, would miss rows of the table: a key of `source_state.HIDDEN`.
HIDDEN: Final = f"""
    CASE WHEN row_security_active(c.oid) THEN 'policies'
         WHEN c.relispartition AND EXISTS (
            SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class r ON r.oid = a.relid
            JOIN pg_namespace o ON o.oid = r.relnamespace CROSS JOIN pg_publication p
            WHERE p.pubname = %(publication)s AND r.oid <> c.oid AND o.nspname <> ALL (%(schemas)s) AND (
                EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = o.oid)
                OR EXISTS (SELECT FROM pg_publication_rel t WHERE t.prpubid = p.oid AND t.prrelid = r.oid)))
            THEN 'elsewhere'
         WHEN c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid) THEN 'heirs'
         WHEN c.relkind = 'p' THEN (WITH RECURSIVE tree AS ({TREE})
            SELECT CASE WHEN k.relkind = 'f' THEN 'foreign' WHEN k.relpersistence <> 'p' THEN 'unlogged'
                        ELSE 'identity' END
            FROM tree t JOIN pg_class k ON k.oid = t.oid
            WHERE k.relkind = 'f' OR (k.relkind = 'r' AND (k.relpersistence <> 'p' OR {_TELLS_OTHERS}))
            LIMIT 1) END
"""  # noqa: S608 - our own words

"""The query for a source's tables: names, keys, columns with their types, and fingerprints."""

from typing import Final

from services.cdc.change_detection import identity_sql
from services.cdc.change_detection.table_fingerprint_sql import HIDDEN, STAMP

#: Debezium treats any type with one of these names as that of the extension.
_OF_EXTENSIONS: Final = "'geometry', 'geography', 'hstore', 'vector', 'halfvec', 'sparsevec'"
#: A domain is captured as its base type.  Debezium supports only some of the source's own types: the kind of
#: a type follows its name, as `column_type` reads it.  Debezium may mistake a type for one of another kind
#: with the same name in any schema.  The query runs at each poll for all columns, and most have types below
#: 12000: Postgres' own.
_TYPE: Final = f"""
    CASE WHEN a.atttypid < 12000 THEN format_type(a.atttypid, a.atttypmod) ELSE
    (SELECT format_type(t.oid, coalesce(base.modifier, a.atttypmod)) || CASE
            WHEN EXISTS (SELECT FROM pg_type o JOIN pg_type its ON its.oid IN (own.oid, e.oid)
                         WHERE o.typname = its.typname AND o.oid <> its.oid
                           AND (o.typtype, o.typbasetype) <> (its.typtype, its.typbasetype))
                THEN ' (ambiguous)'
            WHEN own.typname IN ({_OF_EXTENSIONS}) OR e.typname IN ({_OF_EXTENSIONS}) THEN ' (opaque)'
            WHEN e.typnamespace = 'pg_catalog'::regnamespace OR e.typtype = 'e'
                OR e.typname = 'citext' OR (e.typname = 'ltree' AND t.typcategory <> 'A') THEN ''
            WHEN t.typtype = 'c' THEN ' (composite)'
            WHEN t.typtype IN ('r', 'm') THEN ' (range)'
            ELSE ' (opaque)' END
        || CASE WHEN own.typtype = 'd' AND t.typcategory = 'A' THEN ' (domain)' ELSE '' END
     FROM pg_type own
     LEFT JOIN LATERAL (
         WITH RECURSIVE below AS (
             SELECT own.typbasetype AS oid, own.typtypmod AS modifier WHERE own.typtype = 'd'
             UNION ALL
             SELECT d.typbasetype, d.typtypmod FROM below JOIN pg_type d USING (oid) WHERE d.typtype = 'd')
         SELECT below.* FROM below JOIN pg_type o USING (oid) WHERE o.typtype <> 'd') AS base ON true
     JOIN pg_type t ON t.oid = coalesce(base.oid, own.oid)
     JOIN pg_type e ON e.oid = CASE t.typcategory WHEN 'A' THEN t.typelem ELSE t.oid END
     WHERE own.oid = a.atttypid) END
"""  # noqa: S608 - our own words
#: The tables of `schemas`.  A table whose root is in none of these schemas is published by its own name.
TABLES: Final = f"""
    SELECT c.oid::int8, n.nspname, c.relname, c.relispartition AND EXISTS (
            SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class r ON r.oid = a.relid
            JOIN pg_namespace o ON o.oid = r.relnamespace
            WHERE r.oid <> c.oid AND o.nspname = ANY(%(schemas)s)),
        ({identity_sql.names("c")}),
        (SELECT coalesce(jsonb_agg(jsonb_build_array(a.attname, {_TYPE},
                a.attnotnull, a.attgenerated <> '') ORDER BY a.attnum), '[]')
            FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
        {STAMP}, {HIDDEN}
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY(%(schemas)s) AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
    ORDER BY c.oid
"""  # noqa: S608 - the definition's own text

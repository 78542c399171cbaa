-- Snapshots that were asked for of tables without a key: rows of one from this offset of the table's topic on are
-- of the last that was asked for there, which tells by its token what it has seen (the commits of all of that are
-- before `lsn`), and whether there were rows at all.
CREATE TABLE onramp.source_rereads (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      text   NOT NULL,
    schema_name text   NOT NULL,
    table_name  text   NOT NULL,
    start       bigint NOT NULL,
    token       uuid   NOT NULL UNIQUE,
    seen        pg_snapshot,
    lsn         pg_lsn,
    has_rows    boolean
);
CREATE INDEX ON onramp.source_rereads (source, schema_name, table_name, start, id);

-- What the snapshot has seen that the public table was made of, until the changes are past it.
ALTER TABLE onramp.models ADD COLUMN seen pg_snapshot, ADD COLUMN seen_before pg_lsn;

-- Where it was emptied or read anew last: what is before that a rebuild does not bring back.
ALTER TABLE onramp.models ADD COLUMN begins_at bigint NOT NULL DEFAULT 0;

-- What the agent saw of a source's tables, and when: a change is read by the columns and the key of its time.
CREATE TABLE onramp.source_tables (
    source      text        NOT NULL,
    schema_name text        NOT NULL,
    table_name  text        NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    lsn         pg_lsn,
    columns     jsonb       NOT NULL,
    key         text[],
    dropped     boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (source, schema_name, table_name, seen_at)
);

-- How far each public table has merged the changes that landed; moved in the merge's own transaction.
CREATE TABLE onramp.models (
    source       text        NOT NULL,
    schema_name  text        NOT NULL,
    table_name   text        NOT NULL,
    landing      text        NOT NULL,
    topic_id     uuid,
    next_offset  bigint      NOT NULL DEFAULT 0,
    -- The identity of the last change: what comes behind it and is not greater may be a repeat.
    last_commit  numeric,
    last_order   bigint,
    -- Offsets from which on the table begins empty: a resync, or a rebuild.
    clear_at     bigint,
    -- What landed before this offset is trimmed: a rebuild cannot have it.
    trimmed_to   bigint,
    -- The row that the last change deleted: the next one may be its new key, without its large values.
    carried      jsonb,
    -- How often the table was dropped at its source and begun again here.
    drops        integer     NOT NULL DEFAULT 0,
    -- A change that was parked is missing here, until a rebuild takes it or a person accepts that.
    parked_known bigint      NOT NULL DEFAULT 0,
    changes      bigint      NOT NULL DEFAULT 0,
    repeats      bigint      NOT NULL DEFAULT 0,
    merged_at    timestamptz,
    held_since   timestamptz,
    reason       text,
    PRIMARY KEY (source, schema_name, table_name)
);

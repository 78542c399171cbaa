-- The tables of change data capture, in every database that a source is published to.

-- The state of each source at the agent's last poll, and the requests of operators.
CREATE TABLE onramp_agent.sources (
    source            text PRIMARY KEY,
    dsn_env           text        NOT NULL,
    state             text        NOT NULL,
    reason            text        NOT NULL DEFAULT '',
    slot_active       boolean,
    wal_status        text,
    retained_bytes    bigint,
    heartbeat_age_s   double precision,
    excluded_tables   jsonb       NOT NULL DEFAULT '{}',
    polled_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- From this position on changes are missing, until a resync.
    out_of_sync_lsn   pg_lsn,
    out_of_sync_at    timestamptz,
    out_of_sync_why   text,
    -- When an operator requested a resync that has not begun yet.
    resync_requested_at timestamptz,
    -- By table: a stamp of changes of rows that send no event; and the tables to re-snapshot, each with its reason.
    tables            jsonb,
    resnapshots       jsonb       NOT NULL DEFAULT '{}',
    -- The slot's confirmed position at the last poll, who read the slot then, and up to which position that can have
    -- been the source's own connector: changes that another reader takes from the slot never reach Kafka.
    confirmed_lsn     pg_lsn,
    slot_reader       text,
    own_lsn           pg_lsn,
    -- Whether the source's first snapshot is over: Kafka Connect has forgotten one that it takes once more.
    streams           boolean     NOT NULL DEFAULT false
);

-- The history of each source's tables: a change is read by the columns and the key of its time.
CREATE TABLE onramp.source_tables (
    source      text        NOT NULL,
    schema_name text        NOT NULL,
    table_name  text        NOT NULL,
    observed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lsn         pg_lsn,
    columns     jsonb       NOT NULL,
    key         text[],
    dropped     boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (source, schema_name, table_name, observed_at)
);

-- How far each public table has merged the changes that landed; moved in the merge's own transaction.
CREATE TABLE onramp.table_settings (
    source        text        NOT NULL,
    schema_name   text        NOT NULL,
    table_name    text        NOT NULL,
    landing       text        NOT NULL,
    topic_id      uuid,
    next_offset   bigint      NOT NULL DEFAULT 0,
    -- The identity of the last change: a later one that is not greater may be a repeat.
    last_commit   numeric,
    last_order    bigint,
    -- The offset from which on the table begins empty: a resync, or a rebuild. Its rows are replaced, in one
    -- transaction, once changes up to the offset `clear_after` have landed. During a source's first snapshot that
    -- offset is not known yet (NULL): a snapshot whose last row has landed replaces the rows then.
    clear_at      bigint,
    clear_after   bigint,
    -- Whether the table keeps its rows until the rest of a snapshot has landed.
    awaits_snapshot boolean   NOT NULL DEFAULT false,
    -- Changes before this offset are trimmed from landing: a rebuild cannot have them.
    trimmed_to    bigint,
    -- The row that the last change deleted: the next change may be its new key, without its large values.
    carried       jsonb,
    -- How often the table was dropped at its source and begun again here.
    drops         integer     NOT NULL DEFAULT 0,
    -- The parked changes that are known: they are missing here, until a rebuild has them or an operator accepts that.
    parked_known  bigint      NOT NULL DEFAULT 0,
    changes       bigint      NOT NULL DEFAULT 0,
    repeats       bigint      NOT NULL DEFAULT 0,
    merged_at     timestamptz,
    suspended_since timestamptz,
    reason        text,
    -- The public table as the merger left it: a column that a person drops, renames or retypes is reported, not
    -- filled with nulls.
    stored_shape  jsonb,
    -- The transactions whose commits the table's last snapshot includes, until the merge has passed them.
    snapshot      pg_snapshot,
    snapshot_before pg_lsn,
    -- The offset where the table was last emptied or re-snapshotted: a rebuild starts there.
    begins_at     bigint      NOT NULL DEFAULT 0,
    -- The offset from which on changes are of another log, after a resync: its positions do not compare with those
    -- before. A table that was emptied within its log (`begins_at` alone) still recognises repeats.
    log_begins_at bigint,
    -- Deleted topics that once fed the table's landing: their changes do not continue on today's topic.
    past_topics   uuid[]      NOT NULL DEFAULT '{}',
    PRIMARY KEY (source, schema_name, table_name)
);

-- Requested snapshots of tables without a key. Rows from offset `start` of the table's topic on are of the last
-- snapshot that was requested there. Its marker, found by `token`, says which transactions it includes (all of them
-- committed before `lsn`), and whether there were rows at all.
CREATE TABLE onramp.source_resnapshots (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      text   NOT NULL,
    schema_name text   NOT NULL,
    table_name  text   NOT NULL,
    start       bigint NOT NULL,
    token       uuid   NOT NULL UNIQUE,
    snapshot    pg_snapshot,
    lsn         pg_lsn,
    has_rows    boolean
);
CREATE INDEX ON onramp.source_resnapshots (source, schema_name, table_name, start, id);

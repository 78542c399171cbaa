-- What the agent knows of each source that is published to this database, and what people ask of it.
CREATE TABLE onramp_agent.sources (
    source            text PRIMARY KEY,
    dsn_env           text        NOT NULL,
    state             text        NOT NULL,
    reason            text        NOT NULL DEFAULT '',
    slot_active       boolean,
    wal_status        text,
    retained_bytes    bigint,
    heartbeat_age_s   double precision,
    left_out          jsonb       NOT NULL DEFAULT '{}',
    looked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- From here on changes are missing, until a resync.
    out_of_sync_lsn   pg_lsn,
    out_of_sync_at    timestamptz,
    out_of_sync_why   text,
    -- When somebody asked for a resync that has not begun yet.
    resync_wanted_at  timestamptz,
    -- By table: a stamp of what changes rows without an event; and tables that must be read again, with why.
    tables            jsonb,
    rereads           jsonb       NOT NULL DEFAULT '{}'
);

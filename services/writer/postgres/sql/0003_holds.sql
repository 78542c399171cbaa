-- Why events wait in this database itself: a table that is blocked, an event type that is
-- paused.  A type that is only watched (`watched`) has had parked events lately.
CREATE TABLE onramp.holds (
    kind     text             NOT NULL CHECK (kind IN ('table', 'type')),
    name     text             NOT NULL,
    state    text             NOT NULL CHECK (state IN ('blocked', 'watched', 'paused', 'resumed')),
    sqlstate text,
    timeouts integer          NOT NULL DEFAULT 0,
    seen     double precision NOT NULL DEFAULT 0,
    parked   double precision NOT NULL DEFAULT 0,
    since    timestamptz      NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, name)
);

-- Events that wait for their table or their type, byte for byte, in the ledger's transaction.
CREATE TABLE onramp.waiting (
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL,
    db_schema   text        NOT NULL,
    db_table    text        NOT NULL,
    typed       boolean     NOT NULL,
    event_type  text        NOT NULL,
    code        text        NOT NULL,
    value       bytea       NOT NULL,
    received_at bytea,
    timestamp   timestamptz NOT NULL,
    kept_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (destination, db_schema, topic_id, partition, "offset")
);
CREATE INDEX waiting_of_type ON onramp.waiting (event_type, destination);

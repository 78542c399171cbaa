-- The writer's own tables, in every database that it lands events in.

-- The next offset of each partition that is not settled in this database, moved in the rows' own transaction.
CREATE TABLE onramp.ledger (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    epoch       bigint  NOT NULL,
    -- The offsets [since, upto) were settled under the routes of this digest; earlier ones are in `settled_under`.
    -- Null: nothing is settled yet.
    digest      text,
    since       bigint,
    upto        bigint,
    PRIMARY KEY (topic_id, partition)
);

-- The routes (the digest of their snapshot) under which earlier ranges were settled. If two ranges overlap, the
-- later row counts.
CREATE TABLE onramp.settled_under (
    id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id  uuid    NOT NULL,
    topic     text    NOT NULL,
    partition integer NOT NULL,
    start     bigint  NOT NULL,
    "end"     bigint  NOT NULL,
    digest    text    NOT NULL
);

-- Events by outcome, counted in the rows' own transaction: metrics and the audit read this table.
CREATE TABLE onramp.totals (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    destination text    NOT NULL,
    outcome     text    NOT NULL,
    events      bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition, destination, outcome)
);
-- The landed events of one table: read for each type that has its first parked event.
CREATE INDEX totals_landed ON onramp.totals (destination) WHERE outcome = 'landed';

-- Warnings that are no outcome, counted in the rows' own transaction: `unkeyed` rows, which a producer's repeat
-- lands twice, and `discarded_fields`, which a table's contract drops.
CREATE TABLE onramp.warnings (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    destination text    NOT NULL,
    remark      text    NOT NULL,
    count       bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition, destination, remark)
);

-- Parked events on their way to the topic onramp.user_errors: byte for byte, with the reason.
CREATE TABLE onramp.outbox (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    "offset"    bigint  NOT NULL,
    destination text    NOT NULL,
    value       bytea,
    error       jsonb   NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset", destination)
);

-- The Kafka cluster and the public name that this database belongs to. One row, written once, at the first claim:
-- two owners would each take the other's offsets for settled.
CREATE TABLE onramp.owner (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    cluster_id text        NOT NULL,
    name       text        NOT NULL,
    since      timestamptz NOT NULL DEFAULT now()
);

-- Why this database is halted, and how an operator resolves it. At most one row.
CREATE TABLE onramp.halts (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    reason      text        NOT NULL,
    since       timestamptz NOT NULL DEFAULT now(),
    resolution  text        CHECK (resolution IN ('recheck', 'refill', 'skip')),
    resolved_by text
);

-- Why events wait in this database itself: a table is blocked, or an event type is paused. A type that is only
-- watched (`watched`) has had parked events lately. The writer parks the events behind a dead-lettered hold.
CREATE TABLE onramp.holds (
    kind        text             NOT NULL CHECK (kind IN ('table', 'type')),
    name        text             NOT NULL,
    state       text             NOT NULL
        CHECK (state IN ('blocked', 'watched', 'paused', 'resumed', 'dead_lettered')),
    sqlstate    text,
    timeouts    integer          NOT NULL DEFAULT 0,
    -- The weights of the last events, and of the parked ones among them.
    events      double precision NOT NULL DEFAULT 0,
    parked      double precision NOT NULL DEFAULT 0,
    since       timestamptz      NOT NULL DEFAULT now(),
    -- When and why an operator dead-lettered the events that had been waiting until then.
    dead_lettered_at timestamptz,
    dead_lettered_by text,
    reason      text,
    PRIMARY KEY (kind, name)
);
-- Types that are only watched are many, and no transaction locks them.
CREATE INDEX holds_holding ON onramp.holds (kind, name) WHERE state <> 'watched';

-- Events that wait for their table or their type, byte for byte, in the ledger's transaction. A packet may name a
-- landing table: its typed rows and the events of the table's own name are released separately, each in key order.
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
    added_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (destination, db_schema, typed, topic_id, partition, "offset")
);
-- The waiting events of one type, in their order, among millions of others.
CREATE INDEX waiting_of_type
    ON onramp.waiting (event_type, destination, db_schema, typed, topic_id, partition, "offset");

-- Parked events to land now: staged by the admin service, taken and removed by the writer.
CREATE TABLE onramp.replays (
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL, -- as it was parked: database.schema.table
    attempt     integer     NOT NULL,
    job         uuid        NOT NULL,
    "to"        text,                 -- another table of the same database, as schema.table
    key         bytea,
    value       bytea,                -- the event as it is to land
    sha256      bytea,                -- of an edited value, else null
    received_at timestamptz,          -- from the header; null: the header has no valid time
    timestamp   timestamptz NOT NULL, -- the record's own
    context     bytea,
    staged_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset", destination)
);

-- The result of each attempt, in the row's own transaction. `sorted`: the event was refused and so belonged to no
-- database; the default database's attempt names the one that it belongs to today (reason: {"database"}), and the
-- same attempt is staged there.
CREATE TABLE onramp.replayed (
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL,
    attempt     integer     NOT NULL,
    outcome     text        NOT NULL CHECK (outcome IN ('landed', 'duplicate', 'parked', 'sorted')),
    reason      jsonb,                -- of an event that stays parked, as in the header onramp-error
    job         uuid        NOT NULL,
    "to"        text,
    sha256      bytea,
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset", destination, attempt)
);
-- The admin service follows a job by this index.
CREATE INDEX replayed_of_job ON onramp.replayed (job, at);

-- Parked events to rehearse: staged by the admin service, answered by the writer in place, read and removed by the
-- admin service. A rehearsal lands nothing.
CREATE TABLE onramp.rehearsals (
    job           uuid        NOT NULL,
    topic_id      uuid        NOT NULL,
    topic         text        NOT NULL,
    partition     integer     NOT NULL,
    "offset"      bigint      NOT NULL,
    destination   text        NOT NULL,
    "to"          text,
    value         bytea,
    received_at   timestamptz,
    timestamp     timestamptz NOT NULL,
    -- Whether to rehearse in a table with triggers of its owner, which may act beyond the transaction.
    with_triggers boolean     NOT NULL DEFAULT false,
    staged_at     timestamptz NOT NULL DEFAULT now(),
    outcome       text
        CHECK (outcome IN ('landed', 'duplicate', 'parked', 'triggers', 'unknown', 'sorted')),
    reason        jsonb,
    PRIMARY KEY (job, topic_id, partition, "offset", destination)
);
CREATE INDEX rehearsals_unanswered ON onramp.rehearsals (topic_id, partition, "offset", destination, job)
    WHERE outcome IS NULL;

-- Landing tables of new event names are created in this schema.
CREATE SCHEMA IF NOT EXISTS events;

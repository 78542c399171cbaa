-- Parked events that shall land now: staged by the admin service, taken and removed by the writer.
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
    value       bytea,                -- the event as it shall land
    sha256      bytea,                -- of an edited value, else null
    received_at timestamptz,          -- from the header; null: it had none that is a time
    timestamp   timestamptz NOT NULL, -- the record's own
    context     bytea,
    staged_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset", destination)
);

-- What became of each attempt, in the row's own transaction.
CREATE TABLE onramp.replayed (
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL,
    attempt     integer     NOT NULL,
    outcome     text        NOT NULL CHECK (outcome IN ('landed', 'duplicate', 'parked')),
    reason      jsonb,                -- of one that stays parked, as in the header onramp-error
    job         uuid        NOT NULL,
    "to"        text,
    sha256      bytea,
    at          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, "offset", destination, attempt)
);
-- The admin service follows a job by it.
CREATE INDEX replayed_of_job ON onramp.replayed (job, at);

-- Parked events that somebody asks about: would they land?  Staged by the admin service, answered by
-- the writer in place, read and removed by the admin service.  Nothing lands by it.
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
    outcome       text        CHECK (outcome IN ('landed', 'duplicate', 'parked', 'triggers', 'unknown')),
    reason        jsonb,
    PRIMARY KEY (job, topic_id, partition, "offset", destination)
);
CREATE INDEX rehearsals_unanswered ON onramp.rehearsals (topic_id, partition, "offset", destination, job)
    WHERE outcome IS NULL;

-- Which Kafka offsets are settled in this database, in the rows' own transaction.
CREATE TABLE onramp.ledger (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    epoch       bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition)
);

-- What became of the events, moved in the same transaction: metrics and the audit read this.
CREATE TABLE onramp.totals (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    destination text    NOT NULL,
    outcome     text    NOT NULL,
    events      bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition, destination, outcome)
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

-- Where tables of new event names are made.
CREATE SCHEMA IF NOT EXISTS events;

-- How far each partition of onramp.user_errors has been read: moved with what was kept of it.
CREATE TABLE onramp_admin.consumed (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    PRIMARY KEY (topic, partition)
);

-- Parked events of one cause.  `fingerprint` is of `version` and the eight fields after it.
CREATE TABLE onramp_admin.groups (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint bytea       NOT NULL UNIQUE,
    version     smallint    NOT NULL,
    step        text,
    code        text,
    sqlstate    text,
    destination text,
    "column"    text,
    place       text,
    event_name  text,
    json_type   text,
    state       text        NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'acknowledged', 'ignored', 'resolved')),
    assignee    text,
    events      bigint      NOT NULL DEFAULT 0,
    first_seen  timestamptz NOT NULL,
    last_seen   timestamptz NOT NULL
);
CREATE INDEX groups_newest ON onramp_admin.groups (last_seen DESC, id DESC);

-- One parked event and destination; `reason` is the record's header, as text, for it may name a NUL.  Records of a release that did not say the topic's id have the
-- nil UUID, so the topic's name is part of the key.
CREATE TABLE onramp_admin.events (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL,
    group_id    bigint      NOT NULL REFERENCES onramp_admin.groups,
    state       text        NOT NULL DEFAULT 'open',
    code        text        NOT NULL,
    event_id    text,
    event_name  text,
    parked_at   timestamptz NOT NULL,
    reason      json        NOT NULL,
    size        integer     NOT NULL,
    sha256      bytea,
    UNIQUE (topic_id, topic, partition, "offset", destination)
);
CREATE INDEX events_of_group ON onramp_admin.events (group_id, id);
CREATE INDEX events_of_name ON onramp_admin.events (event_name, id);
CREATE INDEX events_of_id ON onramp_admin.events (event_id);

-- The very bytes.  A tombstone has none.
CREATE TABLE onramp_admin.bytes (
    event bigint PRIMARY KEY REFERENCES onramp_admin.events ON DELETE CASCADE,
    value bytea NOT NULL
);

-- What this installation alone knows: the key that signs cursors.  One row.
CREATE TABLE onramp_admin.installation (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    cursor_key bytea   NOT NULL
);

-- Who did what, and why: kept forever.
CREATE TABLE onramp_admin.acts (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text        NOT NULL,
    act     text        NOT NULL,
    subject text        NOT NULL,
    reason  text
);

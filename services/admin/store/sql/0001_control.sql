-- The control database: parked events, and the decisions of operators.

-- The next offset of each partition of onramp.user_errors, moved with the events that were stored of it, and the
-- topic's id: a topic that was created again has another id, and is read from its start.
CREATE TABLE onramp_admin.consumed (
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint  NOT NULL,
    topic_id    uuid,
    PRIMARY KEY (topic, partition)
);

-- Parked events of one cause. `fingerprint` is of `version` and the eight fields after it.
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

-- Jobs of operators on sets of events. A set is its filters up to one event: later events are not in it. The events'
-- own databases know a job by its UUID, and an event by its attempt.
CREATE TABLE onramp_admin.jobs (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text        NOT NULL CHECK (kind IN ('discard', 'restore', 'replay', 'rehearse')),
    filters       json        NOT NULL,
    upto          bigint      NOT NULL,
    actor         text        NOT NULL,
    reason        text        NOT NULL,
    rate          integer     CHECK (rate > 0),
    state         text        NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'cancelling', 'cancelled', 'done')),
    counted       bigint      NOT NULL,
    done_to       bigint      NOT NULL DEFAULT 0,
    changed       bigint      NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT now(),
    next_at       timestamptz NOT NULL DEFAULT now(),
    finished_at   timestamptz,
    uuid          uuid        NOT NULL DEFAULT gen_random_uuid(),
    walked        boolean     NOT NULL DEFAULT false,
    failed        bigint      NOT NULL DEFAULT 0,
    waits         text,
    -- Steps that edit each payload, as text, because its numbers are exact.
    fix           json,
    is_edited     boolean     NOT NULL DEFAULT false,
    -- Another table of the same database, as schema.table.
    "to"          text,
    with_triggers boolean     NOT NULL DEFAULT false,
    -- The rehearsal whose set, fix and edits a replay takes.
    rehearsed     bigint      REFERENCES onramp_admin.jobs,
    -- Some events of a rehearsal as they would land, masked.
    samples       json
);
CREATE INDEX jobs_running ON onramp_admin.jobs (next_at) WHERE state IN ('running', 'cancelling');

-- The results of a job's events and their reasons, counted by cause: a job may have a million events.
CREATE TABLE onramp_admin.results (
    job     bigint NOT NULL REFERENCES onramp_admin.jobs,
    outcome text   NOT NULL CHECK (outcome IN
        ('landed', 'landed_earlier', 'duplicate', 'failed', 'triggers', 'unknown')),
    reason  text   NOT NULL,
    events  bigint NOT NULL,
    PRIMARY KEY (job, outcome, reason)
);

-- Requests that start a job and have a key: one that is repeated finds the job of the first.
CREATE TABLE onramp_admin.requests (
    actor  text        NOT NULL,
    key    text        NOT NULL,
    sha256 bytea       NOT NULL,
    job    bigint      NOT NULL REFERENCES onramp_admin.jobs,
    at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (actor, key)
);
CREATE INDEX requests_by_time ON onramp_admin.requests (at);

-- Payloads that an operator has edited are uploaded first; jobs refer to the upload.
CREATE TABLE onramp_admin.uploads (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text        NOT NULL,
    events bigint      NOT NULL DEFAULT 0
);
CREATE TABLE onramp_admin.edits (
    upload  bigint NOT NULL REFERENCES onramp_admin.uploads,
    event   bigint NOT NULL,
    payload bytea  NOT NULL,
    PRIMARY KEY (upload, event)
);

-- One parked event and destination, as it came. `reason` is the record's header, as text, because it may contain an
-- escaped NUL. A record that does not name its topic's id has the nil UUID, so the topic's name is part of the key.
CREATE TABLE onramp_admin.parked (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic_id    uuid        NOT NULL,
    topic       text        NOT NULL,
    partition   integer     NOT NULL,
    "offset"    bigint      NOT NULL,
    destination text        NOT NULL,
    group_id    bigint      NOT NULL REFERENCES onramp_admin.groups,
    code        text        NOT NULL,
    event_id    text,
    event_name  text,
    parked_at   timestamptz NOT NULL,
    reason      json        NOT NULL,
    size        integer     NOT NULL,
    sha256      bytea,
    UNIQUE (topic_id, topic, partition, "offset", destination)
);
-- Pages of rare events among a million: without these indexes they read all of it. Each has the order of its page:
-- without fresh statistics the planner would go back through all events instead.
CREATE INDEX events_of_group ON onramp_admin.parked (group_id, id);
CREATE INDEX events_of_name ON onramp_admin.parked (event_name, id);
CREATE INDEX events_of_id ON onramp_admin.parked (event_id, id);
CREATE INDEX events_of_code ON onramp_admin.parked (code, id);
CREATE INDEX events_of_destination ON onramp_admin.parked (destination, id);
CREATE INDEX events_by_time ON onramp_admin.parked (parked_at, id);

-- The decision about each event, in a narrow row of its own: an act rewrites that row, and none of the indexes of
-- `parked`. `failed`: why the last replay did not land. `gone`: the bytes were removed, long after the event was
-- replayed or discarded.
CREATE TABLE onramp_admin.states (
    event      bigint      PRIMARY KEY,
    group_id   bigint      NOT NULL,
    state      text        NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'discarded', 'replaying', 'replayed', 'replayed_duplicate')),
    job        bigint      REFERENCES onramp_admin.jobs,
    changed_at timestamptz,
    attempt    integer     NOT NULL DEFAULT 0,
    failed     json,
    gone       boolean     NOT NULL DEFAULT false
);
CREATE INDEX states_open ON onramp_admin.states (event) WHERE state = 'open';
CREATE INDEX states_not_open ON onramp_admin.states (state, event) WHERE state <> 'open';
CREATE INDEX states_replaying ON onramp_admin.states (job, event) WHERE state = 'replaying';

-- Both as one. A join that names no column of `states` costs nothing: the planner removes it. `stated` is the id once
-- more: a page that goes through a state from some id on bounds both tables.
CREATE VIEW onramp_admin.events AS
SELECT p.id, p.topic_id, p.topic, p.partition, p."offset", p.destination, p.group_id, p.code, p.event_id,
       p.event_name, p.parked_at, p.reason, p.size, p.sha256,
       s.state, s.job, s.changed_at, s.attempt, s.failed, s.gone, s.event AS stated
FROM onramp_admin.parked p LEFT JOIN onramp_admin.states s ON s.event = p.id;

-- The event's own bytes. A tombstone has none.
CREATE TABLE onramp_admin.bytes (
    event     bigint      PRIMARY KEY REFERENCES onramp_admin.parked ON DELETE CASCADE,
    value     bytea       NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
);

-- Bytes that left the database: each segment has the bytes of a range of events, in a file named relative to
-- ONRAMP_ADMIN_STORE.
CREATE TABLE onramp_admin.segments (
    first_event bigint      PRIMARY KEY,
    last_event  bigint      NOT NULL CHECK (last_event >= first_event),
    name        text        NOT NULL UNIQUE,
    events      bigint      NOT NULL,
    size        bigint      NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);

-- The content of a segment, without opening it.
CREATE TABLE onramp_admin.parts (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    segment     bigint      NOT NULL REFERENCES onramp_admin.segments ON DELETE CASCADE,
    destination text        NOT NULL,
    event_name  text,
    step        text,
    code        text        NOT NULL,
    hour        timestamptz NOT NULL,
    events      bigint      NOT NULL
);
CREATE INDEX parts_of_segment ON onramp_admin.parts (segment);

-- Parked events that the database refuses for a value in them, each with the SQLSTATE: no other event waits for
-- them. The key is a digest of the event's identity, and no other column is compared, so that no value of an event
-- keeps it out of this table too.
CREATE TABLE onramp_admin.quarantined (
    key            bytea       PRIMARY KEY,
    sqlstate       text        NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    event          bytea       NOT NULL,
    value          bytea
);

-- Events of a group that left a state (negative) or reached one since they were stored: rows are added by the
-- triggers below and summed up from time to time, so that counting waits for no other session.
CREATE TABLE onramp_admin.moves (
    group_id bigint NOT NULL,
    state    text   NOT NULL,
    events   bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0);

-- The values that differ within a group: by facet and value the events that have it, the rarest of them together.
CREATE TABLE onramp_admin.facets (
    group_id bigint PRIMARY KEY REFERENCES onramp_admin.groups,
    counts   json   NOT NULL
) WITH (fillfactor = 50);

-- The writer's answer about some events of a group, renewed again and again: would they land now?
CREATE TABLE onramp_admin.group_rehearsals (
    group_id    bigint      PRIMARY KEY REFERENCES onramp_admin.groups,
    -- The rehearsal under way (of several groups at once), its start, and its events.
    round       uuid,
    began_at    timestamptz NOT NULL,
    event_ids   bigint[]    NOT NULL DEFAULT '{}',
    -- The registry's digest at that time.
    registry    text        NOT NULL,
    next_at     timestamptz NOT NULL,
    -- The last answers: their time, the number of events, how many would land, and why the others would not.
    answered_at timestamptz,
    events      integer,
    would_land  integer,
    why         json,
    -- Why there is no later answer.
    waits       text
);
CREATE INDEX group_rehearsals_in_progress ON onramp_admin.group_rehearsals (round) WHERE round IS NOT NULL;

-- The secrets of this installation: the key that signs cursors, and the folder of its segments, because two
-- installations may share a store. One row.
CREATE TABLE onramp_admin.installation (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    cursor_key bytea   NOT NULL,
    folder     uuid    NOT NULL DEFAULT gen_random_uuid()
);

-- The audit log: who did what, and why. Rows are added and never changed; a trigger refuses it.
CREATE TABLE onramp_admin.acts (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text        NOT NULL,
    act     text        NOT NULL,
    subject text        NOT NULL,
    reason  text,
    -- The refused requests of an operator are one row a minute, whose count grows. `minute`: of such a row, in UTC.
    events  integer     NOT NULL DEFAULT 1,
    minute  timestamp
);
CREATE UNIQUE INDEX acts_refused ON onramp_admin.acts (actor, minute);
CREATE INDEX acts_of_actor ON onramp_admin.acts (actor, id);
CREATE INDEX acts_of_subject ON onramp_admin.acts (subject, id);
CREATE FUNCTION onramp_admin.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'acts are written once and stay';
END $$;
CREATE TRIGGER acts_stay BEFORE DELETE OR TRUNCATE ON onramp_admin.acts
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.refuse_change();
CREATE TRIGGER acts_stay_as_they_are BEFORE UPDATE ON onramp_admin.acts FOR EACH ROW
    WHEN (old.minute IS NULL OR new.events <= old.events
        OR (new.id, new.at, new.actor, new.act, new.subject, new.reason, new.minute)
            IS DISTINCT FROM (old.id, old.at, old.actor, old.act, old.subject, old.reason, old.minute))
    EXECUTE FUNCTION onramp_admin.refuse_change();

-- An event that is added is open, in the same transaction.
CREATE FUNCTION onramp_admin.open_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO onramp_admin.states (event, group_id) SELECT id, group_id FROM added;
    RETURN NULL;
END $$;
CREATE TRIGGER added_are_open AFTER INSERT ON onramp_admin.parked
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.open_added();

-- A change of a state is counted in the same transaction.
CREATE FUNCTION onramp_admin.count_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO onramp_admin.moves (group_id, state, events)
    SELECT group_id, state, sum(n)
    FROM (SELECT group_id, state, -1 AS n FROM before UNION ALL SELECT group_id, state, 1 FROM after) changed
    GROUP BY 1, 2 HAVING sum(n) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_are_counted AFTER UPDATE ON onramp_admin.states
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.count_moves();

-- An event that is removed by hand is in no state any more; the ingester may store it again.
CREATE FUNCTION onramp_admin.count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH removed AS (
        DELETE FROM onramp_admin.states s USING before WHERE s.event = before.id RETURNING s.group_id, s.state
    )
    INSERT INTO onramp_admin.moves (group_id, state, events)
    SELECT group_id, state, -count(*) FROM removed GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER removed_are_counted AFTER DELETE ON onramp_admin.parked
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.count_removed();

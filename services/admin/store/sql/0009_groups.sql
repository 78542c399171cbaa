-- Events of a group that left a state (negative) or reached one since they were kept: rows are added by what
-- changes events and summed up now and then, so that nobody who counts waits for another one.
CREATE TABLE onramp_admin.moves (
    group_id bigint NOT NULL,
    state    text   NOT NULL,
    events   bigint NOT NULL
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO onramp_admin.moves (group_id, state, events)
WITH moved AS (
    SELECT group_id, state, count(*) AS events FROM onramp_admin.events WHERE state <> 'open' GROUP BY 1, 2
)
SELECT group_id, state, events FROM moved
UNION ALL SELECT group_id, 'open', -sum(events)::bigint FROM moved GROUP BY 1;

-- Whoever changes a state has counted it, in the same transaction.
CREATE FUNCTION onramp_admin.count_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO onramp_admin.moves (group_id, state, events)
    SELECT group_id, state, sum(n)
    FROM (SELECT group_id, state, -1 AS n FROM before UNION ALL SELECT group_id, state, 1 FROM after) changed
    GROUP BY 1, 2 HAVING sum(n) <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_are_counted AFTER UPDATE ON onramp_admin.events
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.count_moves();

-- What differs within a group: by facet and value the events that have it, the rarest of them together.
CREATE TABLE onramp_admin.facets (
    group_id bigint PRIMARY KEY REFERENCES onramp_admin.groups,
    counts   json   NOT NULL
) WITH (fillfactor = 50);

-- What the writer says of some events of a group, again and again: would they land now?
CREATE TABLE onramp_admin.looks (
    group_id    bigint      PRIMARY KEY REFERENCES onramp_admin.groups,
    -- The rehearsal that is under way (of several groups at once), since when, and of which events.
    round       uuid,
    asked_at    timestamptz NOT NULL,
    asked       bigint[]    NOT NULL DEFAULT '{}',
    -- The registry's digest as of then.
    registry    text        NOT NULL,
    next_at     timestamptz NOT NULL,
    -- The last answers: of when they are, of how many events, how many would land, and why others would not.
    answered_at timestamptz,
    events      integer,
    would_land  integer,
    why         json,
    -- Why there is no later answer.
    waits       text
);
CREATE INDEX looks_under_way ON onramp_admin.looks (round) WHERE round IS NOT NULL;

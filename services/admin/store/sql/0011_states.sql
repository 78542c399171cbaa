-- What was decided about an event is a narrow row of its own: an act rewrites that one, and none of the indexes of
-- what was parked.  `parked` is what came; `states` what became of it; `events` shows both as one.
ALTER TABLE onramp_admin.events RENAME TO parked;

CREATE TABLE onramp_admin.states (
    event      bigint      NOT NULL,
    group_id   bigint      NOT NULL,
    state      text        NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'discarded', 'replaying', 'replayed', 'replayed_duplicate')),
    job        bigint,
    changed_at timestamptz,
    attempt    integer     NOT NULL DEFAULT 0,
    failed     json,
    gone       boolean     NOT NULL DEFAULT false
);
INSERT INTO onramp_admin.states (event, group_id, state, job, changed_at, attempt, failed, gone)
SELECT id, group_id, state, job, changed_at, attempt, failed, gone FROM onramp_admin.parked ORDER BY id;
ALTER TABLE onramp_admin.states
    ADD PRIMARY KEY (event),
    ADD FOREIGN KEY (job) REFERENCES onramp_admin.jobs;
CREATE INDEX states_open ON onramp_admin.states (event) WHERE state = 'open';
CREATE INDEX states_not_open ON onramp_admin.states (state, event) WHERE state <> 'open';
CREATE INDEX states_replaying ON onramp_admin.states (job, event) WHERE state = 'replaying';

-- With the columns go their indexes and checks.
DROP TRIGGER moves_are_counted ON onramp_admin.parked;
DROP TRIGGER removed_are_counted ON onramp_admin.parked;
ALTER TABLE onramp_admin.parked
    DROP COLUMN state, DROP COLUMN job, DROP COLUMN changed_at, DROP COLUMN attempt, DROP COLUMN failed,
    DROP COLUMN gone;

-- Whoever adds an event has opened it, and whoever removes one has removed its state, in the same transaction.
CREATE FUNCTION onramp_admin.open_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO onramp_admin.states (event, group_id) SELECT id, group_id FROM added;
    RETURN NULL;
END $$;
CREATE TRIGGER added_are_open AFTER INSERT ON onramp_admin.parked
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.open_added();
CREATE OR REPLACE FUNCTION onramp_admin.count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER moves_are_counted AFTER UPDATE ON onramp_admin.states
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.count_moves();

-- A join that names no column of `states` costs nothing: it is left out.  `stated` is the id once more: a page that
-- goes through a state from some id on bounds both tables.
CREATE VIEW onramp_admin.events AS
SELECT p.id, p.topic_id, p.topic, p.partition, p."offset", p.destination, p.group_id, p.code, p.event_id,
       p.event_name, p.parked_at, p.reason, p.size, p.sha256,
       s.state, s.job, s.changed_at, s.attempt, s.failed, s.gone, s.event AS stated
FROM onramp_admin.parked p LEFT JOIN onramp_admin.states s ON s.event = p.id;
ANALYZE onramp_admin.states;

-- Replays: the events' own databases know a job by its UUID, and an event by its attempt.
ALTER TABLE onramp_admin.jobs
    DROP CONSTRAINT jobs_kind_check,
    DROP CONSTRAINT jobs_state_check,
    ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('discard', 'restore', 'replay')),
    ADD CONSTRAINT jobs_state_check CHECK (state IN ('running', 'cancelling', 'cancelled', 'done')),
    ADD COLUMN uuid   uuid   NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN walked boolean NOT NULL DEFAULT false,
    ADD COLUMN failed bigint NOT NULL DEFAULT 0,
    ADD COLUMN waits  text;
DROP INDEX onramp_admin.jobs_running;
CREATE INDEX jobs_running ON onramp_admin.jobs (next_at) WHERE state IN ('running', 'cancelling');

-- `failed`: why the last replay did not land.
ALTER TABLE onramp_admin.events
    DROP CONSTRAINT events_state_check,
    ADD CONSTRAINT events_state_check
        CHECK (state IN ('open', 'discarded', 'replaying', 'replayed', 'replayed_duplicate')),
    ADD COLUMN attempt integer NOT NULL DEFAULT 0,
    ADD COLUMN failed  json;
CREATE INDEX events_replaying ON onramp_admin.events (job, id) WHERE state = 'replaying';

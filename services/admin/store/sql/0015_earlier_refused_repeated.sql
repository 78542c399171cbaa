-- An attempt of another job has landed the event: the control database was restored since.
ALTER TABLE onramp_admin.results
    DROP CONSTRAINT results_outcome_check,
    ADD CONSTRAINT results_outcome_check
        CHECK (outcome IN ('landed', 'landed_earlier', 'duplicate', 'failed', 'triggers', 'unknown'));

-- What an operator was refused is one row a minute: its count alone grows.  `minute`: of such a row, in UTC.
ALTER TABLE onramp_admin.acts
    ADD COLUMN events integer NOT NULL DEFAULT 1,
    ADD COLUMN minute timestamp;
CREATE UNIQUE INDEX acts_refused ON onramp_admin.acts (actor, minute);
DROP TRIGGER acts_stay ON onramp_admin.acts;
CREATE TRIGGER acts_stay BEFORE DELETE OR TRUNCATE ON onramp_admin.acts
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.refuse_change();
CREATE TRIGGER acts_stay_as_they_are BEFORE UPDATE ON onramp_admin.acts FOR EACH ROW
    WHEN (old.minute IS NULL OR new.events <= old.events
        OR (new.id, new.at, new.actor, new.act, new.subject, new.reason, new.minute)
            IS DISTINCT FROM (old.id, old.at, old.actor, old.act, old.subject, old.reason, old.minute))
    EXECUTE FUNCTION onramp_admin.refuse_change();

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

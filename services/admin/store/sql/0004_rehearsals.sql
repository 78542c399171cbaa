-- What came of a job's events, and why: counted by cause, for they may be a million.
CREATE TABLE onramp_admin.results (
    job     bigint NOT NULL REFERENCES onramp_admin.jobs,
    outcome text   NOT NULL CHECK (outcome IN ('landed', 'duplicate', 'failed', 'triggers', 'unknown')),
    reason  text   NOT NULL,
    events  bigint NOT NULL,
    PRIMARY KEY (job, outcome, reason)
);

-- `fix`: steps that edit each payload, as text, for its numbers are exact.  `to`: another table of the same
-- database, as schema.table.  `rehearsed`: the rehearsal whose set, fix and edits a replay takes.
-- `samples`: some events of a rehearsal as they would land, masked.
ALTER TABLE onramp_admin.jobs
    DROP CONSTRAINT jobs_kind_check,
    ADD CONSTRAINT jobs_kind_check CHECK (kind IN ('discard', 'restore', 'replay', 'rehearse')),
    ADD COLUMN fix           json,
    ADD COLUMN is_edited     boolean NOT NULL DEFAULT false,
    ADD COLUMN "to"          text,
    ADD COLUMN with_triggers boolean NOT NULL DEFAULT false,
    ADD COLUMN rehearsed     bigint REFERENCES onramp_admin.jobs,
    ADD COLUMN samples       json;

-- Payloads that a person has edited, for a job: an event's other bytes stay as they are.
CREATE TABLE onramp_admin.edits (
    job     bigint NOT NULL REFERENCES onramp_admin.jobs,
    event   bigint NOT NULL,
    payload bytea  NOT NULL,
    PRIMARY KEY (job, event)
);

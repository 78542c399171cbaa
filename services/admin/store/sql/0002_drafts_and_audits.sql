-- What an operator has typed in the wizard of event types and not created yet; old rows are dropped.
CREATE TABLE onramp_admin.drafts (
    id       uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    actor    text        NOT NULL,
    at       timestamptz NOT NULL DEFAULT now(),
    document text        NOT NULL
);
CREATE INDEX drafts_by_time ON onramp_admin.drafts (at);

-- Audits that operators have started, one at a time, with their reports. `progress`: partitions read, of how many.
CREATE TABLE onramp_admin.audits (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    deep        boolean,
    state       text        NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'cancelling', 'cancelled', 'done', 'failed')),
    started_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    done        integer     NOT NULL DEFAULT 0,
    total       integer,
    report      json,
    error       text,
    key         text,
    UNIQUE (actor, key)
);
CREATE UNIQUE INDEX audits_one_at_a_time ON onramp_admin.audits ((true)) WHERE state IN ('running', 'cancelling');

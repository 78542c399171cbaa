-- What operators had done to sets of events.  A set is its filters up to one event: later ones are not in it.
CREATE TABLE onramp_admin.jobs (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind        text        NOT NULL CHECK (kind IN ('discard', 'restore')),
    filters     json        NOT NULL,
    upto        bigint      NOT NULL,
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    rate        integer     CHECK (rate > 0),
    state       text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'cancelled', 'done')),
    counted     bigint      NOT NULL,
    done_to     bigint      NOT NULL DEFAULT 0,
    changed     bigint      NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    next_at     timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
CREATE INDEX jobs_running ON onramp_admin.jobs (next_at) WHERE state = 'running';

-- Which job changed an event last, and when: a discard can be undone for a while.
ALTER TABLE onramp_admin.events
    ADD COLUMN job        bigint REFERENCES onramp_admin.jobs,
    ADD COLUMN changed_at timestamptz,
    ADD CHECK (state IN ('open', 'discarded'));

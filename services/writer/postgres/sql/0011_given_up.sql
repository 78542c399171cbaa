-- A person gives up what waits behind a hold: the writer parks what was kept up to that moment, and says why.
ALTER TABLE onramp.holds
    DROP CONSTRAINT holds_state_check,
    ADD CONSTRAINT holds_state_check
        CHECK (state IN ('blocked', 'watched', 'paused', 'resumed', 'given_up')),
    ADD COLUMN given_up_at timestamptz,
    ADD COLUMN given_up_by text,
    ADD COLUMN reason      text;

-- A transform emits outputs for a replayed event, or drops it.
ALTER TABLE onramp_admin.results DROP CONSTRAINT results_outcome_check;
ALTER TABLE onramp_admin.results ADD CONSTRAINT results_outcome_check CHECK (outcome IN
    ('landed', 'landed_earlier', 'duplicate', 'failed', 'triggers', 'unknown', 'emitted', 'dropped'));

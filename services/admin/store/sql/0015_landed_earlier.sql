-- An attempt of another job has landed the event: the control database was restored since.
ALTER TABLE onramp_admin.results
    DROP CONSTRAINT results_outcome_check,
    ADD CONSTRAINT results_outcome_check
        CHECK (outcome IN ('landed', 'landed_earlier', 'duplicate', 'failed', 'triggers', 'unknown'));

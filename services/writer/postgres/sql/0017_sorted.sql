-- An event that was refused belongs to no database: the default one's attempt says to which it does today
-- (reason: {"database"}), and the same attempt is staged there.
ALTER TABLE onramp.replayed DROP CONSTRAINT replayed_outcome_check;
ALTER TABLE onramp.replayed ADD CONSTRAINT replayed_outcome_check
    CHECK (outcome IN ('landed', 'duplicate', 'parked', 'sorted'));
ALTER TABLE onramp.rehearsals DROP CONSTRAINT rehearsals_outcome_check;
ALTER TABLE onramp.rehearsals ADD CONSTRAINT rehearsals_outcome_check
    CHECK (outcome IN ('landed', 'duplicate', 'parked', 'triggers', 'unknown', 'sorted'));

-- `replay` is what becomes of a parked event; a halted database is refilled.
ALTER TABLE onramp.halts DROP CONSTRAINT halts_resolution_check;
UPDATE onramp.halts SET resolution = 'refill' WHERE resolution = 'replay';
ALTER TABLE onramp.halts
    ADD CONSTRAINT halts_resolution_check CHECK (resolution IN ('recheck', 'refill', 'skip'));

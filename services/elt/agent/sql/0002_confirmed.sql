-- Up to where the slot was confirmed at the last look, by whom it was read then, and up to where that can have
-- been our own connector: what somebody else takes from the slot never comes to Kafka.
ALTER TABLE onramp_agent.sources
    ADD COLUMN confirmed_lsn pg_lsn,
    ADD COLUMN slot_reader text,
    ADD COLUMN own_lsn pg_lsn;

-- Packets may name a landing table: its typed rows wait beside the events of its own name, and
-- each kind is released by itself, in the order of its key.
ALTER TABLE onramp.waiting
    DROP CONSTRAINT waiting_pkey,
    ADD PRIMARY KEY (destination, db_schema, typed, topic_id, partition, "offset");

-- Types that are only watched are many, and no transaction locks them.
CREATE INDEX holds_holding ON onramp.holds (kind, name) WHERE state <> 'watched';

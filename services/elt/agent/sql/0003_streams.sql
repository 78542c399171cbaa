-- Whether the source's first snapshot is over: Kafka Connect has forgotten one that it takes once more.
ALTER TABLE onramp_agent.sources ADD COLUMN streams boolean NOT NULL DEFAULT false;

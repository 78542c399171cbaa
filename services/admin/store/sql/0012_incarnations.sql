-- Which incarnation of the topic was read so far: one that is made again has another id, and is read from its start.
-- NULL: a release that did not ask has read it.
ALTER TABLE onramp_admin.consumed ADD COLUMN topic_id uuid;

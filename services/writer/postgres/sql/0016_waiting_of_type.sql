-- What waits of one type is found, and taken in its order, without a look at the others, which may be millions.
DROP INDEX onramp.waiting_of_type;
CREATE INDEX waiting_of_type
    ON onramp.waiting (event_type, destination, db_schema, typed, topic_id, partition, "offset");

-- Events by the table that the writer routed them to, counted before their outcomes and committed with them: the
-- statement compares both. An event that was counted by an earlier release was routed to the table of its outcome.
CREATE TABLE onramp.routed (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    destination text    NOT NULL,
    events      bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition, destination)
);
INSERT INTO onramp.routed (topic_id, topic, partition, destination, events)
SELECT topic_id, min(topic), partition, destination, sum(events) FROM onramp.totals
WHERE outcome IN ('landed', 'duplicate', 'parked', 'waiting') GROUP BY topic_id, partition, destination;

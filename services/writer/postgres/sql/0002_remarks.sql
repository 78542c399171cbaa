-- What is no outcome and worth a look, moved in the rows' own transaction: `unkeyed` rows, which
-- a producer's repeat lands twice, and `discarded_fields`, dropped by a table's contract.
CREATE TABLE onramp.remarks (
    topic_id    uuid    NOT NULL,
    topic       text    NOT NULL,
    partition   integer NOT NULL,
    destination text    NOT NULL,
    remark      text    NOT NULL,
    count       bigint  NOT NULL,
    PRIMARY KEY (topic_id, partition, destination, remark)
);

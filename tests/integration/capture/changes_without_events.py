"""Tables whose rows change without an event in the WAL, and the statements that change them."""

from typing import Final

#: By table: the columns that are compared.
SILENT: Final = {
    "moods": "id, mood::text, many::text, last::text",
    "doubled": "id, n, twice",
    "parts": "id, k",
    "made_again": "id, v",
    "cents": "id, v",
    "filled": "id, v",
    "pairs": "id, v::text",
    "unlogged": "id, v",
    "widened": "id, v",
}
_KEYED: Final = ("made_again", "cents", "filled", "unlogged", "widened")
MAKE_SILENT: Final = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN app.last AS app.mood",
    "CREATE TABLE app.moods (id int PRIMARY KEY, mood app.mood, many app.mood[], last app.last)",
    "INSERT INTO app.moods VALUES (1, 'sad', '{sad,glad}', NULL), (2, NULL, NULL, 'sad')",
    "CREATE TABLE app.doubled (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)",
    "INSERT INTO app.doubled VALUES (1, 3), (2, 4)",
    "CREATE TABLE app.parts (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k)",
    "CREATE TABLE app.parts_1 PARTITION OF app.parts FOR VALUES IN (1)",
    "CREATE TABLE app.parts_2 PARTITION OF app.parts FOR VALUES IN (2)",
    "INSERT INTO app.parts VALUES (1, 1), (2, 1), (3, 2)",
    "CREATE TYPE app.pair AS (a int, b int)",
    "CREATE TABLE app.pairs (id int PRIMARY KEY, v app.pair)",
    "INSERT INTO app.pairs VALUES (1, '(1,2)')",
    "CREATE TABLE app.made_again AS SELECT 1 AS id, 2 AS v",
    "CREATE TABLE app.cents AS SELECT 1 AS id, 2 AS v",
    "CREATE TABLE app.filled AS SELECT 1 AS id, 2 AS v",
    "CREATE TABLE app.unlogged AS SELECT 1 AS id, 2 AS v",
    "CREATE TABLE app.widened AS SELECT 1 AS id, 2 AS v",
    *(f"ALTER TABLE app.{name} ADD PRIMARY KEY (id)" for name in _KEYED),
    # Of the same name but for case: it stays out, and the other one does not.
    'CREATE TABLE app."Cents" (id int PRIMARY KEY)',
    'CREATE TABLE app.of_cents () INHERITS (app."Cents")',
)
CHANGE_SILENTLY: Final = (
    "ALTER TYPE app.mood RENAME VALUE 'sad' TO 'blue'",
    "ALTER TABLE app.doubled ALTER twice DROP EXPRESSION",
    "TRUNCATE app.parts_1",
    "ALTER TYPE app.pair ADD ATTRIBUTE c int",
    "ALTER TABLE app.made_again DROP v; ALTER TABLE app.made_again ADD v int",
    "ALTER TABLE app.cents ALTER v TYPE int USING v * 100",
    (
        "ALTER TABLE app.filled DROP v; ALTER TABLE app.filled ADD v uuid DEFAULT gen_random_uuid();"
        "ALTER TABLE app.filled ALTER v DROP DEFAULT"
    ),
    # Each in one transaction: no look can be between its parts.
    (
        "ALTER TABLE app.unlogged SET UNLOGGED; UPDATE app.unlogged SET v = 3;"
        "ALTER TABLE app.unlogged SET LOGGED"
    ),
    # Of columns that no look ever sees.
    (
        "ALTER TABLE app.widened ADD w int; UPDATE app.widened SET w = 7; UPDATE app.widened SET v = w;"
        "ALTER TABLE app.widened DROP w"
    ),
)
